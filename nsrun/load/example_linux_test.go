package load_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/nsrun/load"
)

// A manifest becomes a policy that sessions can share.
func ExampleManifest() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "agent.json")
	if err := os.WriteFile(name, []byte(`{"name": "notes", "limits": {"timeout": "5s"}}`), 0o600); err != nil {
		panic(err)
	}
	pol, err := load.Manifest(name)
	if err != nil {
		panic(err)
	}
	fmt.Println(pol.Spec().Name, pol.Spec().Timeout, pol.Spec().Network)
	// Output: notes 5s none
}

// A manifest that came with a request has a name only for its errors.
func ExampleBytes() {
	_, err := load.Bytes("request 7", []byte(`{"netwrok": "none"}`), "")
	fmt.Println(err)
	// Output: request 7:1:2: netwrok: a manifest has no such key (did you mean network?)
}
