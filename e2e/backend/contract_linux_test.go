package backend_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
)

// unnoted are lost guarantees without a note of their own.
var unnoted = map[string]string{
	"terminal": "a run that asks for a terminal is refused, so no run that takes place has lost one",
}

func TestContract(t *testing.T) {
	m := matrix{}
	for _, name := range names() {
		m[name] = map[string]column{}
	}
	users(t, func(t *testing.T, w *world) {
		controls := w.controls(t)
		t.Cleanup(func() { w.do(t, nil, built.act, "forget-key", w.mark) })
		for _, e := range backends {
			t.Run(e.name, func(t *testing.T) {
				b := newBox(t, w, e.name, e.flags)
				m[w.name][e.name] = testBackend(t, b, controls)
			})
		}
	})
	m.log(t)
}

// users runs a test as each user that this test can be, side by side.
func users(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("as", func(t *testing.T) { // which waits for both
		for _, name := range names() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newWorld(t, name))
			})
		}
	})
}

// controls makes the acts without a sandbox, and gives for each one that is not done the reason.
func (w *world) controls(t *testing.T) map[string]string {
	t.Helper()
	w.fresh(t)
	w.plantDevice(t)
	acts := slices.DeleteFunc(rows(), func(r row) bool { return r.act == "" || r.keeps })
	outside := make([]row, len(acts))
	for i, r := range acts {
		outside[i] = r.outside()
	}
	w.times = w.deviceTimes()
	e := w.do(t, nil, append([]string{built.act, "launch", w.mark}, batch(t, lists(w, outside))...)...)
	all := replies(t, e)
	require.Len(t, all, len(acts), e)
	missing := map[string]string{}
	for i, r := range acts {
		if r.done(w, all[i]) {
			continue
		}
		first, _, _ := strings.Cut(all[i].Error, "\n")
		missing[r.act] = "no control, without a sandbox " + first
		lone := r.lone
		if r.guarantee == "devices" && w.uid != 0 {
			lone = roots
		}
		assert.NotEmpty(t, lone, "without a sandbox as %s, %q must be done\n%v", w.name, r.act, all[i])
	}
	return missing
}

// plantDevice makes a device in what is granted to read.
func (w *world) plantDevice(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	require.NoError(t, mknod(filepath.Join(w.grant, "device")))
}

// testBackend is the contract: the same for every backend, checked by what its own receipts say.
func testBackend(t *testing.T, b box, controls map[string]string) map[string]cell {
	all := rows()
	acts := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return r.act == "" })
	b.fresh(t)
	b.plantDevice(t)
	before := testenv.Settled(&b.reached)
	b.times = b.deviceTimes()
	result, e := b.launched(t, batch(t, lists(b.world, acts))...)
	answers := replies(t, e)
	require.Len(t, answers, len(acts), e)
	cells := newCells(t, result.Receipt)
	for i, r := range acts {
		assert.NotContains(t, answers[i].Error, "bug:", "%s", r.act)
		cells.add(r, expected(t, b, r, r.observe(b.world, answers[i]), controls[r.act]), controls[r.act])
	}
	for _, d := range temporary() {
		os.Remove(filepath.Join(d, b.mark))
	}
	for _, r := range all {
		if r.test != nil {
			b.fresh(t)
			cells.add(r, r.test(t, b, result.Receipt), "")
		}
	}
	if cells.holds("network") && cells.holds("unix_sockets") {
		assert.Equal(t, before, testenv.Settled(&b.reached), "nothing has come to the host's servers")
	}
	for name, c := range cells {
		cells[name] = c.compare(t, b, name)
	}
	for _, name := range result.Receipt.Lost {
		noted(t, b, result.Receipt, name)
	}
	return cells
}

// launched runs a command from a caller that has a keyring of its own and a further descriptor.
func (b box) launched(t *testing.T, command ...string) (result, ending) {
	t.Helper()
	name := b.world.run + "/launched"
	words := append([]string{built.act, "launch", b.mark}, b.words(b.shown("--result", name), command...)...)
	e := b.do(t, b.change(nil), words...)
	require.Equal(t, 0, e.code, e)
	return readResult(t, name, e), e
}

// noted makes sure that a lost guarantee is in a note.
func noted(t *testing.T, b box, r receipt, name string) {
	t.Helper()
	if r.Backend == "none" {
		require.NotEmpty(t, r.Notes)
		for _, held := range r.Holds {
			assert.Contains(t, r.Notes[0].Loss, held, "the one note lists what holds")
		}
		assert.Equal(t, "sandbox", r.Notes[0].Feature)
		return
	}
	has := slices.ContainsFunc(r.Notes, func(n struct{ Feature, Loss string }) bool { return n.Feature == name && n.Loss != "" })
	assert.True(t, has || unnoted[name] != "", "%s as %s: a note of the receipt names %s, which is lost", b.backend, b.name, name)
}
