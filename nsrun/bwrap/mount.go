package bwrap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// usualMode is the mode of what an option makes when no --perms goes before it.
func usualMode(kind mounts.Kind) uint32 {
	switch kind {
	case mounts.File:
		return 0o666
	case mounts.Data:
		return 0o600
	}
	return 0o755
}

// apart are the flags of everything that bubblewrap mounts, but for devices.
func apart() mounts.Flags { return mounts.Flags{mounts.NoSuid, mounts.NoDev} }

// add queues what an option asks for, once its numbers have been read.
func (p *parser) add(row option, operands []string, op mounts.Op) error {
	p.ops = append(p.ops, op)
	return p.notEmpty(row, operands)
}

// takePerms returns the permissions that go before an option, once.
func (p *parser) takePerms(kind mounts.Kind) uint32 {
	mode := usualMode(kind)
	if p.perms != nil {
		mode, p.perms = *p.perms, nil
	}
	return mode
}

// bindFlags reads the flags off the option's name.
func bindFlags(name string) mounts.Flags {
	switch {
	case strings.HasPrefix(name, "--dev-"):
		return mounts.Flags{mounts.NoSuid}
	case strings.HasPrefix(name, "--ro-"):
		return mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev}
	}
	return apart()
}

func (p *parser) bind(row option, operands []string) error {
	return p.add(row, operands, mounts.Op{Kind: mounts.Bind, Source: operands[0], Dest: operands[1], Flags: bindFlags(row.name),
		Optional: strings.HasSuffix(row.name, "-try")})
}

func (p *parser) bindFD(row option, operands []string) error {
	fd, err := p.fd(operands[0])
	if err != nil {
		return err
	}
	return p.add(row, operands, mounts.Op{Kind: mounts.Bind, Source: fmt.Sprintf("/proc/self/fd/%d", fd), Dest: operands[1], FD: &fd, Flags: bindFlags(row.name)})
}

func (p *parser) remount(row option, operands []string) error {
	return p.add(row, operands, mounts.Op{Kind: mounts.Remount, Dest: operands[0], Flags: bindFlags("--ro-")})
}

func (p *parser) layer(_ option, operands []string) error {
	p.layers = append(p.layers, operands[0])
	return nil
}

func (p *parser) overlay(row option, operands []string) error {
	least, word := 1, "one"
	if row.name == "--ro-overlay" {
		least, word = 2, "two"
	}
	if len(p.layers) < least {
		return p.die("%s requires at least %s --overlay-src", row.name, word)
	}
	if err := p.notEmpty(row, operands); err != nil {
		return err
	}
	if slices.Contains(p.layers, "") {
		return p.die("%s does not take an empty path argument", layerOption)
	}
	op := mounts.Op{Kind: mounts.Overlay, Dest: operands[len(operands)-1], Layers: p.layers, Flags: apart(), Scratch: row.name == "--tmp-overlay"}
	if len(operands) == 3 {
		op.Upper, op.Work = operands[0], operands[1]
	}
	p.layers = nil
	return p.add(row, operands, op)
}

func (p *parser) fileSystem(row option, operands []string) error {
	op := mounts.Op{Kind: row.kind, Dest: operands[0]}
	switch row.kind {
	case mounts.Proc:
		op.Flags = append(apart(), mounts.NoExec)
	case mounts.Tmpfs:
		op.Flags, op.Mode = apart(), p.takePerms(row.kind)
		op.Size, p.size = int64(p.size), 0
	case mounts.Dev:
		op.Source, p.needsDevpts = p.caller.Terminal, true
	case mounts.Dir:
		op.Mode = p.takePerms(row.kind)
	}
	return p.add(row, operands, op)
}

// content makes a file of what is in a descriptor, which is read in the end.
func (p *parser) content(row option, operands []string) error {
	fd, err := p.fd(operands[0])
	if err != nil {
		return err
	}
	op := mounts.Op{Kind: row.kind, Dest: operands[1], FD: &fd, Mode: p.takePerms(row.kind)}
	if row.kind == mounts.Data {
		op.Flags = bindFlags(row.name)
	}
	return p.add(row, operands, op)
}

func (p *parser) symlink(row option, operands []string) error {
	return p.add(row, operands, mounts.Op{Kind: mounts.Symlink, Source: operands[0], Dest: operands[1]})
}

func (p *parser) chmod(row option, operands []string) error {
	mode, ok := octal(operands[0])
	if !ok {
		return p.die("%s takes an octal argument <= 07777", row.name)
	}
	return p.add(row, operands, mounts.Op{Kind: mounts.Chmod, Dest: operands[1], Mode: mode})
}

func (p *parser) setPerms(row option, operands []string) error {
	if p.perms != nil {
		return p.die("--perms given twice for the same action")
	}
	mode, ok := octal(operands[0])
	if !ok {
		return p.die("%s takes an octal argument <= 07777", row.name)
	}
	p.perms = &mode
	return nil
}

func (p *parser) setSize(_ option, operands []string) error {
	if p.size != 0 {
		return p.die("--size given twice for the same action")
	}
	size, ok := byteCount(operands[0])
	switch {
	case !ok:
		return p.die("--size takes a non-zero number of bytes")
	case size > maxSize:
		return p.die("--size (for tmpfs) is limited to %d", uint64(maxSize))
	}
	p.size = size
	return nil
}
