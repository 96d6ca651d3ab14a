package bwrap

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/facts"
)

// model is bubblewrap's grammar without its values: what is wrong with the words themselves, if nothing else stops the parser before.
func model(args []string) string {
	arity := map[string]option{}
	for _, row := range options {
		arity[row.name] = row
	}
	for len(args) > 0 {
		row, known := arity[args[0]]
		switch {
		case args[0] == "--" || !strings.HasPrefix(args[0], "-"):
			return ""
		case strings.HasPrefix(args[0], "--debug-opt="):
		case !known:
			return "Unknown option " + args[0]
		case len(args) <= len(row.operands):
			return row.name + " lacks words"
		}
		args = args[1+len(row.operands):]
	}
	return ""
}

// anyFD is a caller who has the same file open at every descriptor.
func anyFD(uid int, data string) Caller {
	c := newWorld(uid, nil).Caller
	c.ReadFD = func(int) ([]byte, error) { return []byte(data), nil }
	c.Labels = func(string) error { return nil }
	return c
}

// FuzzParse feeds words, one a line, against the model: it must foresee every unknown option and every missing word, and nothing that
// it finds fault with may pass.
func FuzzParse(f *testing.F) {
	for _, row := range options {
		f.Add(row.name+"\n"+strings.Repeat("1\n", len(row.operands))+"x", "")
		f.Add("--bind\n/\n/\n"+row.name, "--dir\x00/a")
	}
	f.Add("--perms\n-1777777777777777777777\n--dir\n\n--\n", "--\x00")
	f.Fuzz(func(t *testing.T, text, file string) {
		args := strings.Split(text, "\n")
		p, err := Parse(args, anyFD(len(text)%2*1000, file), known)
		if err == nil {
			require.NotNil(t, p)
			require.Empty(t, model(args), "accepted: %q", args)
			return
		}
		exit, ok := err.(*Exit)
		require.True(t, ok, "every error is an Exit")
		require.True(t, exit.Code == 0 && exit.Stdout != "" || exit.Code == 1 && strings.HasSuffix(exit.Stderr, "\n"), "%+v", exit)
		message := strings.TrimPrefix(strings.TrimPrefix(exit.Error(), "<3>"), "bwrap: ")
		fromFile := slices.Contains(args, "--args") // what is wrong with the file is not the model's
		if strings.HasPrefix(message, "Unknown option ") && !fromFile {
			require.Equal(t, model(args), message, "%q", args)
		}
		for _, row := range options {
			if len(row.operands) > 0 && row.name != layerOption && !strings.HasSuffix(row.name, "bind-fd") && message == row.lack() && !fromFile {
				require.Equal(t, row.name+" lacks words", model(args), "%q", args)
			}
		}
	})
}

// valuesOf gives operands of each name by a byte.
var valuesOf = map[string]func(b byte) string{
	"FD":    func(b byte) string { return strconv.Itoa(3 + int(b)%40) },
	"UID":   func(b byte) string { return strconv.Itoa(int(b)) },
	"GID":   func(b byte) string { return strconv.Itoa(int(b)) },
	"OCTAL": func(b byte) string { return strconv.FormatUint(uint64(b)*16%4096, 8) },
	"BYTES": func(b byte) string { return strconv.Itoa(1 + int(b)*4096) },
	"CAP": func(b byte) string {
		if int(b) >= len(capNames) {
			return []string{"ALL", strconv.Itoa(int(b) % maxCaps)}[b%2]
		}
		return "cap_" + capNames[b]
	},
}

// line makes a command line of bytes: each picks an option, those after it the operands.
func line(bytes []byte) []string {
	var args []string
	for len(bytes) > 0 {
		row := options[int(bytes[0])%len(options)]
		bytes = bytes[1:]
		if row.name == "--help" || row.name == "--version" || row.name == "--args" {
			continue
		}
		args = append(args, row.name)
		for _, o := range row.operands {
			var b byte
			if len(bytes) > 0 {
				b, bytes = bytes[0], bytes[1:]
			}
			value := valuesOf[o]
			if value == nil {
				value = func(b byte) string { return fmt.Sprintf("/%c", 'a'+b%26) }
			}
			args = append(args, value(b))
		}
	}
	return append(args, "--", "--command", "")
}

// FuzzRoundTrip makes command lines from the table: what Parse accepts, Render writes so that Parse reads the same plan, and the
// rendered line is rendered as itself.
func FuzzRoundTrip(f *testing.F) {
	for i, row := range options {
		seed := append([]byte{byte(i)}, "123"[:len(row.operands)]...)
		f.Add(true, false, seed)
		f.Add(false, true, slices.Repeat(seed, 3))
	}
	f.Fuzz(func(t *testing.T, root, old bool, bytes []byte) {
		uid, host := 1000, known
		if root {
			uid = 0
		}
		if old {
			host = host.With(facts.Openat2, facts.Answer{State: facts.No}).With(facts.UserNS, facts.Answer{State: facts.No})
		}
		// Without these most lines are refused.
		args := append([]string{"--unshare-user", "--unshare-uts", "--unshare-pid"}[:3*(len(bytes)%2)], line(bytes)...)
		caller := anyFD(uid, "12345678")
		p, err := Parse(args, caller, host)
		if err != nil || len(args) > maxWords/2 { // the rendered line says more
			return
		}
		r, err := Render(p, 20)
		require.NoError(t, err)
		require.Empty(t, r.Losses, "%q", args)
		read := func(r Rendered) Caller {
			caller.ReadFD = func(fd int) ([]byte, error) {
				i := slices.IndexFunc(r.Data, func(b Blob) bool { return b.FD == fd })
				if i < 0 {
					return nil, fmt.Errorf("descriptor %d was not given", fd)
				}
				return r.Data[i].Data, nil
			}
			return caller
		}
		q, err := Parse(r.Args, read(r), host)
		require.NoError(t, err, "%q became %q", args, r.Args)
		s, err := Render(q, 20)
		require.NoError(t, err)
		require.Equal(t, r, s, "%q", args)
		again, err := Parse(s.Args, read(s), host)
		require.NoError(t, err)
		require.Equal(t, q, again)
		// The descriptors that the first line was read from are its own.
		p.Bwrap.Consumed, q.Bwrap.Consumed = nil, nil
		assert.Equal(t, p, q, "%q became %q", args, r.Args)
	})
}
