package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/audit"
)

// LI11: an nsrun that is killed leaves its run open, and the next start ends it. The lock that tells them apart belongs to the open file,
// which no process of the sandbox may have kept a descriptor of.
func TestAuditOfAKilledRun(t *testing.T) {
	needSandbox(t)
	backends := []string{"native", "none"}
	if exec.Command("nsrun", "run", "--backend", "landlock", "--", "true").Run() == nil { // where there is that backend
		backends = append(backends, "landlock")
	}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "audit.jsonl")
			s := start(t, "--backend", backend, "--audit", log, "--", "sh", "-c", "echo ready; sleep 1000")
			assert.Equal(t, []int{s.cmd.Process.Pid}, holders(log), "nsrun alone has it open")
			another := func() {
				out, err := exec.Command("nsrun", "run", "--audit", log, "--", "true").CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			another()
			assert.Equal(t, []string{"ok", "running"}, auditVerdicts(t, log), "it lives")
			require.NoError(t, s.cmd.Process.Kill())
			_ = s.cmd.Wait()
			another()
			assert.Equal(t, []string{"ok", audit.Aborted, "ok"}, auditVerdicts(t, log))
			out, err := exec.Command("nsrun", "audit", "verify", log).Output()
			require.NoError(t, err)
			assert.Contains(t, string(out), "rows 6, open runs 0,")
		})
	}
}

// holders lists the processes that have a file open.
func holders(file string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range all {
		if target, err := os.Readlink(fd); err == nil && target == file {
			pid, _ := strconv.Atoi(strings.Split(fd, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

func auditVerdicts(t *testing.T, log string) (all []string) {
	t.Helper()
	r, err := audit.Read(log)
	require.NoError(t, err)
	defer r.Close()
	_, err = audit.Runs(r, audit.Filter{}, func(reported audit.RunRows) error {
		all = append(all, reported.Verdict())
		return nil
	})
	require.NoError(t, err)
	return all
}

func TestSince(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "24h": now.AddDate(0, 0, -1), "2026-01-30": time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC), "2026-01-31T12:00:00Z": now,
	} {
		at, err := since(text, now)
		require.NoError(t, err, text)
		assert.True(t, want.Equal(at), text)
	}
	for _, text := range []string{"soon", "-1h", "31.1.2026"} {
		_, err := since(text, now)
		assert.Error(t, err, text)
	}
}
