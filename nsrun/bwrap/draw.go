package bwrap

import (
	"fmt"
	"strconv"

	"github.com/nsrun/nsrun/mounts"
)

// draw writes one operation as options.
func (r *renderer) draw(op mounts.Op) {
	switch op.Kind {
	case mounts.Bind:
		source := op.Source
		if op.FD != nil {
			source = strconv.Itoa(*op.FD)
		}
		r.option(bindName(op), source, op.Dest)
	case mounts.Tmpfs:
		r.perms(op)
		if op.Size > 0 {
			r.option("--size", strconv.FormatInt(op.Size, 10))
		}
		r.option("--tmpfs", op.Dest)
	case mounts.Proc, mounts.Dev, mounts.Mqueue:
		r.option("--"+string(op.Kind), op.Dest)
	case mounts.Remount:
		r.option("--remount-ro", op.Dest)
	case mounts.Dir:
		r.perms(op)
		r.option("--dir", op.Dest)
	case mounts.File:
		r.perms(op)
		r.option("--file", r.content(op), op.Dest)
	case mounts.Data:
		r.perms(op)
		r.option(bindName(op), r.content(op), op.Dest)
	case mounts.Symlink:
		r.option("--symlink", op.Source, op.Dest)
	case mounts.Chmod:
		r.option("--chmod", octalWord(op.Mode), op.Dest)
	case mounts.Overlay:
		r.overlay(op)
	default:
		r.lose("mounts", "bubblewrap has no such operation", "", string(op.Kind)+" "+op.Dest)
	}
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

func octalWord(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// perms says what the next option makes is allowed, if it is not what is usual.
func (r *renderer) perms(op mounts.Op) {
	if op.Mode != usualMode(op.Kind) {
		r.option("--perms", octalWord(op.Mode))
	}
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
