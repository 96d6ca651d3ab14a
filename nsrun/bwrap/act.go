package bwrap

import (
	"strings"

	"github.com/nsrun/nsrun/nsrun/plan"
)

// perform does what an option is for.
func (p *parser) perform(row option, operands []string) error {
	switch {
	case row.flag != nil:
		*row.flag(p) = true
	case row.namespace != "":
		p.unshare[row.namespace] = true
	case row.fd != nil:
		return p.last(row, row.fd(p), func() (int, error) { return p.fd(operands[0]) })
	case row.id != nil:
		return p.last(row, row.id(p), func() (int, error) {
			id, ok := number(operands[0])
			if !ok {
				return 0, p.die("Invalid %s: %s", strings.TrimPrefix(row.name, "--"), operands[0])
			}
			return id, nil
		})
	default:
		return row.act(p, row, operands)
	}
	return nil
}

// last takes a number of which there is one.
func (p *parser) last(row option, place **int, read func() (int, error)) error {
	p.onlyLast(row.name, *place != nil)
	n, err := read()
	if err == nil {
		*place = &n
	}
	return err
}

func (p *parser) unshareAll(option, []string) error {
	for _, name := range []string{plan.Ipc, plan.Pid, plan.Uts, plan.Net} {
		p.unshare[name] = true
	}
	p.tryUser, p.tryCgroup = true, true
	return nil
}

func (p *parser) shareNet(option, []string) error {
	p.unshare[plan.Net] = false
	return nil
}

func (p *parser) fd(word string) (int, error) {
	fd, ok := number(word)
	if !ok {
		return 0, p.die("Invalid fd: %s", word)
	}
	return fd, nil
}

func (p *parser) argv0(row option, operands []string) error {
	if p.bw.Argv0 != nil {
		return p.die("--argv0 used multiple times")
	}
	p.bw.Argv0 = &operands[0]
	return nil
}

func (p *parser) chdir(row option, operands []string) error {
	p.onlyLast(row.name, p.bw.Chdir != nil)
	p.bw.Chdir = &operands[0]
	return p.notEmpty(row, operands)
}

func (p *parser) setHostname(row option, operands []string) error {
	p.onlyLast(row.name, len(p.bw.Hostnames) > 0)
	p.bw.Hostnames = append(p.bw.Hostnames, operands[0])
	return nil
}

func (p *parser) clearenv(option, []string) error {
	p.env = nil
	return nil
}

func (p *parser) setenv(_ option, operands []string) error {
	if !p.env.set(operands[0], operands[1]) {
		return p.die("setenv failed")
	}
	return nil
}

func (p *parser) unsetenv(_ option, operands []string) error {
	if !p.env.unset(operands[0]) {
		return p.die("unsetenv failed")
	}
	return nil
}

func (p *parser) lockFile(row option, operands []string) error {
	p.bw.LockFiles = append(p.bw.LockFiles, operands[0])
	return p.notEmpty(row, operands)
}

func (p *parser) syncFD(_ option, operands []string) error {
	fd, err := p.fd(operands[0])
	if err == nil {
		p.bw.SyncFDs = append(p.bw.SyncFDs, fd)
	}
	return err
}

// seccomp takes a filter that is read in the end, addSeccomp one that is read at once.
func (p *parser) seccomp(row option, operands []string) error {
	if len(p.bw.Filters) > 0 {
		return p.die("--seccomp cannot be combined with --add-seccomp-fd")
	}
	return p.last(row, &p.seccompFD, func() (int, error) { return p.fd(operands[0]) })
}

func (p *parser) addSeccomp(_ option, operands []string) error {
	if p.seccompFD != nil {
		return p.die("--add-seccomp-fd cannot be combined with --seccomp")
	}
	fd, err := p.fd(operands[0])
	if err != nil {
		return err
	}
	return p.filter(fd)
}

// filter reads a program of 8 bytes an instruction.
func (p *parser) filter(fd int) error {
	data, err := p.read(fd)
	switch {
	case err != nil:
		return p.die("Can't read seccomp data: %v", err)
	case len(data)%8 != 0:
		return p.die("Invalid seccomp data, must be multiple of 8")
	}
	p.bw.Filters = append(p.bw.Filters, data)
	return nil
}

// setLabel takes the SELinux context of the command, or of what is made.
func (p *parser) setLabel(row option, operands []string) error {
	p.onlyLast(row.name, p.given[row.name])
	p.given[row.name] = true
	if row.name == "--exec-label" {
		p.bw.ExecLabel = operands[0]
	} else {
		p.bw.FileLabel = operands[0]
	}
	if p.caller.Labels == nil {
		return p.die("labeling not supported on this system")
	}
	if err := p.caller.Labels(operands[0]); err != nil {
		return p.die("invalid label %s: %v", operands[0], err)
	}
	return nil
}

// Debugging options make bubblewrap do without a system call, as on an old kernel.
const (
	noOpenat2      = "force-openat-fallback"
	noMountSetattr = "force-mount-setattr-fallback"
)

func (p *parser) debug(value string) error {
	if value != noOpenat2 && value != noMountSetattr {
		return p.die("Unknown --debug-opt value: %s", value)
	}
	p.given[value] = true
	return nil
}
