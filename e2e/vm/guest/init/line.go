package main

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/e2e/vm/guest"
)

// line is the serial line to the host's test.
var (
	line     *os.File
	speaking sync.Mutex
)

// lineNames are what the second serial line is called: x86's second port, and a PCI card's first where there is none.
var lineNames = [...]string{"/dev/ttyS1", "/dev/ttyS0"}

func openLine() (err error) {
	for _, name := range lineNames {
		f, openErr := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		attributes, getErr := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		if getErr != nil { // the kernel has names for ports that are not there
			f.Close()
			err = errors.Join(err, getErr)
			continue
		}
		attributes.Iflag, attributes.Oflag, attributes.Lflag = 0, 0, 0
		attributes.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
		line = f
		return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, attributes)
	}
	return err
}

func say(f guest.Frame) {
	if line == nil {
		return
	}
	speaking.Lock()
	defer speaking.Unlock()
	_ = guest.Write(line, f) // there is nobody else to tell
}
