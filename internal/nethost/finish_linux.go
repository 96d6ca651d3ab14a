package nethost

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Finish passes on what a command has sent before its end: it accepts the connections that wait, and reads bytes and packets to their end. Without a
// sandbox the kernel delivers them. Nothing is carried back, since nobody reads it. Finish returns when all is passed on, or when within is over, and then the
// number of connections and flows that still have something. [Server.Close] resets those. Finish is called once, before it.
func (s *Server) Finish(within time.Duration) (left int) {
	late := time.NewTimer(within)
	defer late.Stop()
	close(s.ending)
	s.mu.Lock()
	for c := range s.open {
		switch c := c.(type) {
		case *net.TCPListener:
			_ = c.SetDeadline(past)
		case *net.UDPConn:
			_ = c.SetReadDeadline(past)
		}
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.enter.Wait()
		<-s.record.ended()
		close(ended)
	}()
	select {
	case <-ended:
	case <-late.C:
	}
	return s.record.left()
}

// past is a deadline that makes a wait return.
var past = time.Unix(1, 0)

// endPause is how long something that has come may take to be read at the end, before it is looked again whether anything is there.
const endPause = time.Millisecond

func (s *Server) isEnding() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// more reports whether a listener or socket is to be read from again, after an error: at the end only if there is something.
func (s *Server) more(from interface {
	syscall.Conn
	SetDeadline(time.Time) error
}) bool {
	if !s.isEnding() {
		return true
	}
	raw, err := from.SyscallConn()
	if err != nil {
		return false
	}
	some := false
	err = raw.Control(func(fd uintptr) {
		n, failed := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		some = failed == nil && n > 0
	})
	return err == nil && some && from.SetDeadline(time.Now().Add(endPause)) == nil
}
