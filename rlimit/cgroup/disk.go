package cgroup

import (
	"errors"
	"io/fs"
	"strings"
)

// disks returns the device numbers of the block devices in blocks (/sys/block) on which data is stored. Devices that are made of other
// disks need no limit of their own, because the disks below have one. Loop devices do: in version 1 the kernel writes their files outside
// of the group. It is an error if there is no disk to limit.
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
		case errors.Is(err, fs.ErrNotExist): // a path of a multipath device, or a disk that has been removed since
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

// isDisk reports whether a block device is a disk. It excludes devices in memory, devices made of other disks (dm, md), and loop devices
// without a file.
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
