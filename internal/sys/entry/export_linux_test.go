package entry

import "unsafe"

// Pressure is pressure.
func Pressure(text string) int { return pressure(unsafe.Pointer(unsafe.StringData(text)), len(text)) }

// Running is running, for tests of another package: see there.
func Running(text string) int { return running(unsafe.Pointer(unsafe.StringData(text)), len(text)) }
