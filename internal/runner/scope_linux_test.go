package runner

import (
	"errors"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// managed is a host with a service manager, and no place for cgroups, whatever this one is.
func managed() facts.Facts {
	f := facts.Facts{Kernel: "6.18.0", Arch: "amd64", UID: 1000, GID: 1000, LastCap: 40, LandlockABI: 7,
		Answers: map[facts.Name]facts.Answer{}}
	for _, row := range facts.Table {
		f.Answers[row.Name] = facts.Answer{State: facts.Yes}
	}
	f.Manager = &facts.Manager{Socket: "/run/user/1000/systemd/private", Tree: "/sys/fs/cgroup",
		Controllers: []string{"memory", "pids", "cpu"}}
	return f.With(facts.SystemdScope, facts.Answer{State: facts.Unknown})
}

// TestAScopeThatCannotBeHadIsNoReasonToFail has the start fail for want of it, at each step: the limits then are what they are without.
func TestAScopeThatCannotBeHadIsNoReasonToFail(t *testing.T) {
	for stage, op := range map[string]string{"scope": "enter", "cgroup": "make"} {
		t.Run(stage, func(t *testing.T) {
			refusal := &Error{Stage: stage, Op: op, Err: unix.EACCES}
			var tried []*plan.Plan
			try := func(limit string, require ...string) (*plan.Plan, error) {
				tried = nil
				pol := NewPolicy().Limit(limit, 50).spec
				pol.Require = require
				never := func() facts.Facts { t.Error("all is asked for"); return probe.Quick() }
				return attemptBy(managed, never, plan.Request{Policy: pol, Command: []string{"true"}, Sole: true}, func(p *plan.Plan) error {
					tried = append(tried, p)
					if p.Scope != nil {
						return refusal
					}
					return nil
				})
			}
			p, err := try("memory_mb")
			require.NoError(t, err)
			require.Len(t, tried, 2)
			assert.NotNil(t, tried[0].Scope)
			assert.Same(t, tried[1], p)
			assert.Nil(t, p.Scope)
			assert.Contains(t, p.Notes, plan.Note{Feature: "systemd_scope", Loss: "none could be had for memory_mb",
				Found: refusal.Error(), Fix: "systemd-run --user --scope true may say more"})
			assert.Contains(t, p.String(), "memory_mb: bounds the private memory of each process")

			var lacks *PolicyCompatibilityError
			_, err = try("memory_mb", "limits")
			require.ErrorAs(t, err, &lacks)
			assert.Len(t, tried, 1)
			assert.ErrorContains(t, err, "limits: not all limits hold as they were asked for; found: "+refusal.Error())
			_, err = try("cpu_percent")
			require.ErrorAs(t, err, &lacks)
			assert.ErrorContains(t, err, "cpu_percent: a CPU share takes a cgroup, and none can be made here; found: "+refusal.Error())
		})
	}
}

// TestOnlyAProcessOfItsOwnIsMoved plans for the nsrun command, and for a program that is more than one run.
func TestOnlyAProcessOfItsOwnIsMoved(t *testing.T) {
	stop := errors.New("seen")
	for _, sole := range []bool{true, false} {
		req := plan.Request{Policy: NewPolicy().Limit("memory_mb", 50).spec, Command: []string{"true"}, Sole: sole}
		_, err := attemptBy(managed, managed, req, func(p *plan.Plan) error {
			assert.Equal(t, sole, p.Scope != nil)
			return stop
		})
		assert.Equal(t, stop, err)
	}
}
