package session

import (
	"slices"
	"sync"
)

// budget is a number of bytes that requests share. Who wants more than there is waits for its turn.
type budget struct {
	mu    sync.Mutex
	free  int64
	queue []*wish // in the order of their coming, or one who wants much would wait for ever behind those who want little
}

// wish is what somebody waits for.
type wish struct {
	bytes   int64
	granted chan struct{}
}

// take waits until so many bytes are there, and reports whether they were before stop was closed.
func (b *budget) take(n int64, stop <-chan struct{}) bool {
	w := &wish{n, make(chan struct{})}
	b.change(func() { b.queue = append(b.queue, w) })
	select {
	case <-w.granted:
		return true
	case <-stop:
	}
	given := true
	b.change(func() {
		if i := slices.Index(b.queue, w); i >= 0 {
			b.queue, given = slices.Delete(b.queue, i, i+1), false
		}
	})
	return given
}

func (b *budget) give(n int64) {
	b.change(func() { b.free += n })
}

// change does what act does, and grants what can be granted then.
func (b *budget) change(act func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	act()
	for len(b.queue) > 0 && b.queue[0].bytes <= b.free {
		b.free -= b.queue[0].bytes
		close(b.queue[0].granted)
		b.queue = slices.Delete(b.queue, 0, 1)
	}
}
