package backend_test

import (
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
)

// TestMovesBetweenDirectories: a file can be moved and linked from one writable directory to another, as git does with objects that it receives. The
// rename is one, and no copy, or the file would have another number. What is read-only, or not granted at all, stays where it is.
func TestMovesBetweenDirectories(t *testing.T) {
	if testenv.Landlock() == 1 {
		t.Skip("Landlock ABI 2 has the right to do that")
	}
	each(t, false, func(t *testing.T, b box) {
		b.mkdir(t, b.work+"/from")
		b.mkdir(t, b.work+"/to")
		b.write(t, b.work+"/from/file", "moved")
		before, err := os.Stat(b.work + "/from/file")
		assert.NoError(t, err)
		e := b.run(t, b.shown(), built.act, "batch", `[["rename","`+b.work+`/from/file","`+b.work+`/to/file"],["link","`+b.work+`/to/file","`+b.work+`/from/link"],`+
			`["rename","`+b.grant+`/file","`+b.work+`/to/granted"],["rename","`+b.secret+`","`+b.work+`/to/secret"]]`)
		answers := replies(t, e)
		if !assert.Len(t, answers, 4, e) {
			return
		}
		for i, act := range answers {
			assert.Equal(t, i < 2 || !b.confined(), act.Done, "%v; without a sandbox all are done", act)
		}
		after, err := os.Stat(b.work + "/from/link")
		if assert.NoError(t, err) {
			assert.True(t, os.SameFile(before, after), "it is the same file")
		}
	})
}
