package denial

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostWaiting bounds the events that are not looked up yet: two paths of 4 KiB each are some 4 MiB.
	mostWaiting = 512
	// Events are passed on when a batch is full, or when nothing was asked for a while: to wake the thread that looks costs more than an answer.
	batchSize, batchTime = 128, 2 // ms
	// roomTime is how long a call waits for room.
	roomTime = 100 * time.Millisecond
	// mostSlow bounds how often in a row it does, where fewer events than a batch are looked up in that time.
	mostSlow = 20
)

// queue has the events that are not looked up yet. One goroutine adds them and passes them on, another one takes them.
type queue struct {
	batch    []event // not passed on yet
	patience time.Duration
	full     bool         // the last event found no room
	slow     int          // waits in a row for looks that are slow
	waiting  atomic.Int64 // events that are not looked up yet

	more, room chan struct{} // wake who takes, and who waits for room
	mu         sync.Mutex
	passed     []event
	ended      bool // no more events will be passed on
}

func newQueue() *queue {
	return &queue{patience: roomTime, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// wake wakes who waits, or who is about to.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add adds an event, if there is room for it.
func (q *queue) add(e event) bool {
	if q.waiting.Load() >= mostWaiting && !q.wait() {
		return false
	}
	q.full = false
	q.waiting.Add(1)
	if q.batch = append(q.batch, e); len(q.batch) == batchSize {
		q.pass()
	}
	return true
}

// wait waits a little for room, and reports whether there is any: a command that asks for more than can be looked up is slowed down to that. Where
// looks are slow it is for so long only, and it does not wait twice for a look that does not end.
func (q *queue) wait() bool {
	if q.full || q.slow == mostSlow {
		return false
	}
	q.pass()
	timer := time.NewTimer(q.patience)
	defer timer.Stop()
	for q.waiting.Load() >= mostWaiting {
		select {
		case <-q.room:
		case <-timer.C:
			q.slow++
			q.full = q.waiting.Load() >= mostWaiting
			return !q.full
		}
	}
	q.slow = 0
	return true
}

// pass hands on what was added.
func (q *queue) pass() {
	q.mu.Lock()
	q.passed = append(q.passed, q.batch...)
	q.mu.Unlock()
	clear(q.batch) // their texts are not kept
	q.batch = q.batch[:0]
	wake(q.more)
}

// end hands on what was added. No more events come.
func (q *queue) end() {
	q.pass()
	q.batch = nil
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	wake(q.more)
}

// done says that n events are looked up, or given up. One who waits goes on when there is room for a batch.
func (q *queue) done(n int) {
	const room = mostWaiting - batchSize
	if left := q.waiting.Add(-int64(n)); left <= room && room < left+int64(n) {
		wake(q.room)
	}
}

// each takes the events, until there are no more. Who keeps one calls done when it is looked up.
func (q *queue) each(take func(event) (kept bool)) {
	for {
		q.mu.Lock()
		events, ended := q.passed, q.ended
		q.passed = nil
		q.mu.Unlock()
		for i := range events {
			if !take(events[i]) {
				q.done(1)
			}
			events[i] = event{}
		}
		switch {
		case len(events) > 0:
		case ended:
			return
		default:
			<-q.more
		}
	}
}
