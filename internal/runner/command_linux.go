package runner

import (
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// command checks what is asked for and makes it complete.
func (s *Session) command(args []string, dir string, env []string) (stages.Command, error) {
	c := stages.Command{Args: slices.Clone(args), Env: s.plan.Env, Dir: s.plan.Dir}
	if len(args) == 0 || args[0] == "" {
		return c, &policy.Fault{Field: "args", Text: "no command", Fix: "give the name or path of a program"}
	}
	for i, a := range args {
		if strings.Contains(a, "\x00") {
			return c, &policy.Fault{Field: "args", Text: fmt.Sprintf("argument %d holds a NUL byte", i), Fix: "pass such bytes over standard input"}
		}
	}
	if strings.Contains(dir, "\x00") {
		return c, &policy.Fault{Field: "dir", Text: "it holds a NUL byte", Fix: "give a path inside"}
	}
	switch {
	case path.IsAbs(dir):
		c.Dir = dir
	case dir != "":
		c.Dir += "/" + dir
	}
	rule, err := s.checkCommand(args, c.Dir, env)
	if err != nil {
		return c, err
	}
	if c.Dir != s.plan.Dir {
		env = append([]string{"PWD=" + path.Clean(c.Dir)}, env...)
	}
	if c.Env, err = over(c.Env, slices.Concat(env, rule)); err != nil {
		return c, err
	}
	return c, checkPath(args[0], c.Env)
}

// checkPath refuses to look for a program in a relative place of PATH, as os/exec does: a process that can write there would choose the program.
func checkPath(name string, env []string) error {
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	if i < 0 || strings.Contains(name, "/") {
		return nil
	}
	for place := range strings.SplitSeq(strings.TrimPrefix(env[i], "PATH="), ":") {
		if !path.IsAbs(place) {
			return &policy.Fault{Field: "args", Text: "PATH holds a relative place, where the program would be looked for",
				Fix: "give the program's path, or leave relative places out of PATH", Err: exec.ErrDot}
		}
	}
	return nil
}

// over puts variables over those of base.
func over(base, more []string) ([]string, error) {
	if len(more) == 0 {
		return base, nil
	}
	out := slices.Clone(base)
	for _, v := range more {
		name, _, ok := strings.Cut(v, "=")
		if !ok || !policy.ValidEnvName(name) || strings.Contains(v, "\x00") {
			return nil, &policy.Fault{Field: "env", Text: fmt.Sprintf("%q is not NAME=value", v), Fix: "write NAME=value, without NUL bytes"}
		}
		out = slices.DeleteFunc(out, func(have string) bool { return strings.HasPrefix(have, name+"=") })
		out = append(out, v)
	}
	return out, nil
}

// bound is how long a command may run; 0 is for ever.
func (s *Session) bound(asked time.Duration) (time.Duration, error) {
	most := time.Duration(s.plan.Timeout)
	switch {
	case asked < 0:
		return 0, &policy.Fault{Field: "timeout", Text: fmt.Sprintf("%v is negative", asked), Fix: "give a time, or 0 for the policy's"}
	case asked == 0:
		return most, nil
	case most > 0 && asked > most:
		return 0, &policy.Fault{Field: "timeout", Text: fmt.Sprintf("%v is above the policy's %v", asked, most), Fix: "ask for less, or raise the policy's timeout"}
	}
	return asked, nil
}
