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
)

// queue has the events that are not looked up yet. One goroutine adds them and passes them on, another one takes them.
type queue struct {
	batch   []event      // not passed on yet
	full    bool         // the last event found no room
	waiting atomic.Int64 // events that are not looked up yet

	more, room chan struct{} // wake who takes, and who waits for room
	mu         sync.Mutex
	passed     []event
	ended      bool // no more events will be passed on
}

func newQueue() *queue { return &queue{more: make(chan struct{}, 1), room: make(chan struct{}, 1)} }

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

// wait waits a little for room, and reports whether there is any: a command that asks for more than can be looked up is slowed down. It does not wait
// again for a look that does not end.
func (q *queue) wait() bool {
	if q.full {
		return false
	}
	q.pass()
	timer := time.NewTimer(roomTime)
	defer timer.Stop()
	for q.waiting.Load() >= mostWaiting {
		select {
		case <-q.room:
		case <-timer.C:
			q.full = true
			return false
		}
	}
	return true
}

// pass hands on what was added.
func (q *queue) pass() {
	q.mu.Lock()
	q.passed = append(q.passed, q.batch...)
	q.mu.Unlock()
	q.batch = q.batch[:0]
	wake(q.more)
}

// end hands on what was added. No more events come.
func (q *queue) end() {
	q.pass()
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	wake(q.more)
}

// each takes the events, until there are no more.
func (q *queue) each(take func(event)) {
	for {
		q.mu.Lock()
		events, ended := q.passed, q.ended
		q.passed = nil
		q.mu.Unlock()
		for _, e := range events {
			take(e)
			if q.waiting.Add(-1) == mostWaiting-batchSize {
				wake(q.room)
			}
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
