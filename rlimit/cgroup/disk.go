package cgroup

import (
	"errors"
	"io/fs"
	"strings"
)

// disks lists the numbers of the block devices that data comes to rest on, of those in a /sys/block. What is made of other disks is bounded by
// them, but loop devices, whose files the kernel writes by itself in version 1. It is an error if there is none to be bounded.
func disks(blocks fs.FS) (numbers []string, err error) {
	entries, err := fs.ReadDir(blocks, ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !isDisk(blocks, e.Name()) {
			continue
		}
		number, err := fs.ReadFile(blocks, e.Name()+"/dev")
		switch {
		case errors.Is(err, fs.ErrNotExist): // a path of a multipath device, or one that has been taken out meanwhile
		case err != nil:
			return nil, err
		default:
			numbers = append(numbers, strings.TrimSpace(string(number)))
		}
	}
	if numbers == nil {
		return nil, errors.New("no disk is seen in /sys/block, so none can be bounded")
	}
	return numbers, nil
}

// isDisk leaves out what is made of memory, of other disks (dm, md), and loop devices that are free.
func isDisk(blocks fs.FS, name string) bool {
	if strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "zram") {
		return false
	}
	if strings.HasPrefix(name, "loop") {
		_, err := fs.Stat(blocks, name+"/loop/backing_file")
		return err == nil
	}
	below, err := fs.ReadDir(blocks, name+"/slaves")
	return err != nil || len(below) == 0
}
