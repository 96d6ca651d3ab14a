package clients_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// client is a program that calls bwrap for ends of its own.
type client struct {
	name  string
	act   func(j *job) (facts, error)
	calls int    // how often it calls bwrap at least
	words string // are in one of those calls
	extra string // what the shim adds to the calls
	want  facts  // must come of it with every engine
}

func clients() []client {
	return []client{
		{name: "mat2", act: mat2, calls: 6, words: "--unshare-cgroup-try --new-session --cap-drop all --bind", want: mat2Facts},
		{name: "opam", act: opam, calls: 3, words: "--unshare-net --new-session --die-with-parent --proc /proc --dev /dev --setenv", want: opamFacts},
		{name: "ansible-runner", act: ansible, calls: 1, words: "--die-with-parent --unshare-pid --dev-bind /dev dev --proc /proc", want: ansibleFacts,
			// It binds /bin and links /lib64 but forgets /lib, which on Debian 12 is a link to usr/lib and is where the loader is: by itself no
			// program starts in its sandbox, with any bwrap.
			extra: "--symlink usr/lib /lib"},
		{name: "thumbnailer", act: thumbnail, calls: 2, words: "--unshare-all --die-with-parent", want: thumbnailFacts},
		{name: "sandbox-runtime", act: srt, calls: len(srtFacts) - 1, words: "--new-session --die-with-parent", want: srtFacts},
		{name: "sandbox-runtime-long", act: srtLong, calls: 2, words: "--args 9", want: srtLongFacts},
	}
}

func TestClients(t *testing.T) {
	if built.why != "" {
		t.Skip(built.why)
	}
	for _, p := range people() {
		for _, c := range clients() {
			for _, e := range built.engines {
				t.Run(p.name+"/"+c.name+"/"+e.name, func(t *testing.T) {
					t.Parallel()
					c.check(t, p, e)
				})
			}
		}
	}
}

func (c client) check(t *testing.T, p person, e engine) {
	j, err := newJob(p, e, c.name, c.extra)
	require.NoError(t, err)
	defer func() { assert.NoError(t, j.close(), "what the client left must be removable") }()
	got, err := c.act(j)
	require.NoError(t, err)
	assert.Equal(t, c.want, got, "what came of the client's job")
	calls := j.calls()
	assert.GreaterOrEqual(t, len(calls), c.calls, "how often the client calls bwrap")
	assert.True(t, strings.Contains(strings.Join(calls, "\n"), c.words), "no call of bwrap has %q; the last: %.500q", c.words, calls[max(0, len(calls)-1):])
	assert.Empty(t, j.left(), "processes that outlive the client")
}
