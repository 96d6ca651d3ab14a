package bwrap

import (
	"fmt"
	"strconv"

	"github.com/nsrun/nsrun/mounts"
)

func (r *renderer) mounts(ops []mounts.Op) {
	for _, op := range ops {
		if !r.draw(op) {
			r.lose("mounts", "bubblewrap has no such operation", "", string(op.Kind)+" "+op.Dest)
		}
	}
}

// draw writes one operation as options, and reports whether there are any for it.
func (r *renderer) draw(op mounts.Op) bool {
	switch op.Kind {
	case mounts.Bind:
		r.bind(op)
	case mounts.Tmpfs:
		r.tmpfs(op)
	case mounts.Proc, mounts.Dev, mounts.Mqueue:
		r.option("--"+string(op.Kind), op.Dest)
	case mounts.Remount:
		r.option("--remount-ro", op.Dest)
	case mounts.Dir:
		r.dir(op)
	case mounts.File:
		r.file(op)
	case mounts.Data:
		r.nameless(op)
	case mounts.Symlink:
		r.option("--symlink", op.Source, op.Dest)
	case mounts.Chmod:
		r.option("--chmod", octalWord(op.Mode), op.Dest)
	case mounts.Overlay:
		r.overlay(op)
	default:
		return false
	}
	return true
}

// bindName is the option that binds with an operation's flags.
func bindName(op mounts.Op) string {
	name := "bind"
	switch {
	case op.Flags.Has(mounts.ReadOnly): // before devices: rather less than asked
		name = "ro-bind"
	case !op.Flags.Has(mounts.NoDev):
		name = "dev-bind"
	}
	switch {
	case op.Kind == mounts.Data:
		name += "-data"
	case op.FD != nil:
		name += "-fd"
	case op.Optional:
		name += "-try"
	}
	return "--" + name
}

func (r *renderer) bind(op mounts.Op) {
	source := op.Source
	if op.FD != nil {
		source = strconv.Itoa(*op.FD)
	}
	r.option(bindName(op), source, op.Dest)
}

func octalWord(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// permsUnless says what the next option makes is allowed, if it is not what is usual.
func (r *renderer) permsUnless(mode, usual uint32) {
	if mode != usual {
		r.option("--perms", octalWord(mode))
	}
}

func (r *renderer) tmpfs(op mounts.Op) {
	r.permsUnless(op.Mode, modeTmpfs)
	if op.Size > 0 {
		r.option("--size", strconv.FormatInt(op.Size, 10))
	}
	r.option("--tmpfs", op.Dest)
}

func (r *renderer) dir(op mounts.Op) {
	r.permsUnless(op.Mode, modeDir)
	r.option("--dir", op.Dest)
}

func (r *renderer) file(op mounts.Op) {
	r.permsUnless(op.Mode, modeFile)
	r.option("--file", r.content(op), op.Dest)
}

func (r *renderer) nameless(op mounts.Op) {
	r.permsUnless(op.Mode, modeData)
	r.option(bindName(op), r.content(op), op.Dest)
}

// content is the descriptor that an operation's content is read from: its own, or one that is found for it.
func (r *renderer) content(op mounts.Op) string {
	if op.FD != nil {
		return strconv.Itoa(*op.FD)
	}
	return r.blob(op.Data)
}

func (r *renderer) overlay(op mounts.Op) {
	r.each(layerOption, op.Layers)
	switch {
	case op.Upper != "":
		r.option("--overlay", op.Upper, op.Work, op.Dest)
	case op.Scratch:
		r.option("--tmp-overlay", op.Dest)
	default:
		r.option("--ro-overlay", op.Dest)
	}
}
