package main

import (
	"debug/elf"
	"fmt"
)

// needsNoLoader reports an error unless a program is static.
func needsNoLoader(name string) error {
	f, err := elf.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static: it names a loader", name)
		}
	}
	return nil
}
