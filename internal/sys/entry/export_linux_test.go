package entry

import "unsafe"

// Pressure is pressure.
func Pressure(text string) int { return pressure(unsafe.Pointer(unsafe.StringData(text)), len(text)) }

// Running is running, for tests of another package: see there.
func Running(text string) int { return running(unsafe.Pointer(unsafe.StringData(text)), len(text)) }

// Forker is the word by which the third process is asked to fork the child, or to end.
var Forker = &ahead.forker

// States of Forker.
const (
	ForkerWaits = forkerWaits
	ForkerGo    = forkerGo
	ForkerQuits = forkerQuits
)

// TellForker is tellForker.
func TellForker(what uint32) bool { return tellForker(what) }
