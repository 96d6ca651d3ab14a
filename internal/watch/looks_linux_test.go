package watch_test

import (
	"fmt"
	"testing"

	"github.com/nsrun/nsrun/internal/watch"
)

// BenchmarkTwoLooks is what a run in a git repository pays beside two mounts.
func BenchmarkTwoLooks(b *testing.B) {
	root := b.TempDir()
	repository(b, root, ".git")
	for i := range 14 {
		put(b, root, fmt.Sprintf(".git/hooks/%d.sample", i), "x", 0o755)
	}
	for i := range 40 {
		put(b, root, fmt.Sprint("file", i), "x", 0o644)
	}
	for b.Loop() {
		found, _ := after(b, root, watch.Options{}, func() {})
		if len(found) > 0 {
			b.Fatal(found)
		}
	}
}
