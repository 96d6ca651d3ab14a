package nethost

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestConnectionsShareALookup: a program that opens many connections to a name at once is no flood of questions. One that gives up takes no lookup from
// the others.
func TestConnectionsShareALookup(t *testing.T) {
	const connections = 50
	var questions atomic.Int32
	answer := make(chan struct{})
	resolver.Dial = func(context.Context, string, string) (net.Conn, error) {
		questions.Add(1)
		<-answer
		return nil, errors.New("the test has no network")
	}
	defer func() { resolver.Dial = nil }()
	first, giveUp := context.WithCancel(t.Context())
	var begun, all sync.WaitGroup
	look := func(ctx context.Context) {
		begun.Add(1)
		all.Go(func() {
			begun.Done()
			if _, err := lookupHost(ctx, "shared.example.com"); assert.Error(t, err) && ctx.Err() == nil {
				assert.Contains(t, err.Error(), "the test has no network")
			}
		})
	}
	look(first)
	assert.Eventually(t, func() bool { return questions.Load() > 0 }, time.Minute, time.Millisecond)
	for range connections {
		look(t.Context())
	}
	begun.Wait()
	time.Sleep(100 * time.Millisecond) // those that have begun are waiting now
	giveUp()
	close(answer)
	all.Wait()
	// Each attempt asks each server for both kinds of address.
	assert.Less(t, questions.Load(), int32(connections))
}
