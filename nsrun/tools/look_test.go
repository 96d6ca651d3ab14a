package tools_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/tools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLook compares what a row is said to add with what it does add.
func TestLook(t *testing.T) {
	dir := layout(t, map[string]string{"home/cache/": "", "home/file": "", "home/link": "-> /etc", "home/.ssh/known_hosts": "", "data/": "", "via": "-> data", "home/to": "-> ../data"})
	require.NoError(t, os.WriteFile(dir+"/home/large", make([]byte, 2<<20), 0o644))
	l, err := net.Listen("unix", dir+"/s")
	require.NoError(t, err)
	defer l.Close()
	h := realHost(dir)
	h.Lookup = func(name string) (string, bool) {
		v, ok := map[string]string{"DATA": dir + "/data", "VIA": dir + "/via", "SOCK": dir + "/s", "FLAGS": ""}[name]
		return v, ok
	}
	for _, tt := range []struct {
		kind  tools.Kind
		path  string
		state tools.State
		at    string // below dir
		why   string
	}{
		{tools.Read, "~/cache", tools.Shown, "home/cache", ""},
		{tools.Read, "~/file", tools.Shown, "home/file", ""},
		{tools.Read, "~/to", tools.Shown, "home/to", ""},
		{tools.Read, "~/none", tools.Absent, "home/none", ""},
		{tools.Read, "$NONE|~/cache", tools.Shown, "home/cache", ""},
		{tools.Read, "$DATA|~/cache", tools.Shown, "data", ""},
		{tools.Read, "$NONE", tools.Absent, "", "there is no $NONE"},
		{tools.Read, "$VIA", tools.LeftOut, "via", "leads through a symlink"},
		{tools.Read, "~/link", tools.LeftOut, "home/link", "is a directory of the system"},
		{tools.Read, "~/.ssh", tools.LeftOut, "home/.ssh", "keys"},
		{tools.Read, "/usr/bin", tools.Shown, "/usr/bin", ""}, // the default policy shows it
		{tools.Cache, "~/cache", tools.Shown, "home/cache", ""},
		{tools.Cache, "~/file", tools.LeftOut, "home/file", "is not a directory"},
		{tools.Build, "~/file", tools.LeftOut, "home/file", "is not a directory"},
		{tools.Build, "~/none", tools.Absent, "home/none", ""},
		{tools.Private, "~/none", tools.Empty, "home/none", ""},
		{tools.Copy, "~/.ssh/known_hosts", tools.Shown, "home/.ssh/known_hosts", ""},
		{tools.Copy, "~/file", tools.Shown, "home/file", ""},
		{tools.Copy, "~/large", tools.LeftOut, "home/large", "1 MiB"},
		{tools.Copy, "~/cache", tools.LeftOut, "home/cache", "1 MiB"},
		{tools.Copy, "~/none", tools.Absent, "home/none", ""},
		{tools.Socket, "$SOCK", tools.Shown, "s", ""},
		{tools.Socket, "~/file", tools.LeftOut, "home/file", "it is no socket"},
		{tools.Socket, "~/none", tools.Absent, "", "there is no ~/none"},
		{tools.Agent, "$SOCK", tools.Shown, "s", ""},
		{tools.Agent, "$NONE", tools.Absent, "", "there is no $NONE"},
		{tools.Settings, "~/.gitconfig", tools.Absent, "home/.gitconfig", ""},
		{tools.Repository, "", tools.Depends, "", "nsrun plan --tool x"},
	} {
		row := tools.Tool{Name: "x", Places: []tools.Place{{Path: tt.path, Kind: tt.kind}}, Pass: []string{"FLAGS", "UNSET"}}
		here := tools.Look(row, h)
		require.Len(t, here.Places, 1)
		got := here.Places[0]
		assert.Equal(t, tt.state, got.State, "%s %s", tt.kind, tt.path)
		assert.Equal(t, tt.at, strings.TrimPrefix(got.Path, dir+"/"), "%s %s", tt.kind, tt.path)
		assert.Contains(t, got.Why, tt.why, "%s %s", tt.kind, tt.path)
		assert.Equal(t, []string{"FLAGS"}, here.Pass)

		file := filepath.Join(t.TempDir(), "row.json")
		require.NoError(t, os.WriteFile(file, []byte(`{"places": [{"path": "`+tt.path+`", "kind": "`+string(tt.kind)+`"}], "here": {"places": [1]}}`), 0o644))
		with := add(t, h, policy.Default(h.Home), file) // what was found when the row was printed does not count
		added := len(with.FS) > len(policy.Default(h.Home).FS)
		if tt.path != "/usr/bin" {
			assert.Equal(t, tt.state == tools.Shown || tt.state == tools.Empty, added, "%s %s", tt.kind, tt.path)
		}
		noted := len(with.Notes) > len(policy.Default(h.Home).Notes)
		assert.Equal(t, tt.state == tools.LeftOut || tt.state == tools.Absent && (tt.kind == tools.Agent || tt.kind == tools.Socket), noted, "%s %s", tt.kind, tt.path)
	}
	for _, config := range []string{"home/.gitconfig", "home/.config/git/config"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(dir+"/"+config), 0o755))
		require.NoError(t, os.WriteFile(dir+"/"+config, nil, 0o644))
		git, err := tools.Find("git")
		require.NoError(t, err)
		assert.Equal(t, tools.Shown, tools.Look(git, h).Places[1].State, config)
		require.NoError(t, os.Remove(dir+"/"+config))
	}
}

// TestLookOpensNothing has a FIFO at a place: to open it would wait.
func TestLookOpensNothing(t *testing.T) {
	dir := layout(t, map[string]string{"home/": ""})
	require.NoError(t, syscall.Mkfifo(dir+"/home/f", 0o600))
	for _, kind := range tools.Kinds {
		path := "~/f"
		if kind == tools.Repository {
			path = ""
		}
		here := tools.Look(tools.Tool{Places: []tools.Place{{Path: path, Kind: kind}}}, realHost(dir))
		assert.Len(t, here.Places, 1)
	}
}
