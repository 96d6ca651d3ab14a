package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/e2e/vm"
)

var (
	onKernels = flag.String("kernels", "", "lines of kernels for TestVM, separated by commas; all of the set if empty")
	keepVM    = flag.Bool("keep", false, "keep the directories of TestVM's machines, and say how each is booted")
	updateVM  = flag.Bool("update", false, "write anew what TestVM's machines say")
	fullVM    = flag.Bool("full", false, "TestVM with all machines, and all tests that can run in one: hours where there is no KVM")
)

// inVM says that this process is in one of TestVM's machines.
var inVM = os.Getenv("NSRUN_TEST_VM") != ""

// TestVM boots kernels and runs tests in them, as root and as an ordinary user. It runs only when it is named, since it takes minutes. The
// levels of its subtests' names are the boot, the machine (several can share a boot), the user, the suite and the test:
//
//	go test ./e2e -run TestVM -timeout 60m
//	go test ./e2e -run 'TestVM/6.1$/6.1$/user/backend/TestContract' -keep
//	go test ./e2e -run TestVM/6.12/hidepid
func TestVM(t *testing.T) {
	words := strings.Split(flag.Lookup("test.run").Value.String(), "/")
	if inVM || !strings.Contains(words[0], "TestVM") {
		t.Skip("boots virtual machines for minutes, and runs when it is named: go test ./e2e -run TestVM -timeout 60m")
	}
	require.Empty(t, flag.Lookup("test.skip").Value.String(), "TestVM has no -skip: name what is to run")
	for _, name := range strings.FieldsFunc(*onKernels, func(r rune) bool { return r == ',' }) {
		_, found := vm.FindLine(name)
		require.True(t, found, "-kernels %s: no such line in e2e/vm/matrix.go", name)
	}
	_, err := vm.FindQemu(runtime.GOARCH)
	need(t, err == nil, fmt.Sprint(err))
	module, err := filepath.Abs("..")
	require.NoError(t, err)
	h := &harness{module: module, trees: map[string]vm.Tree{}, kernels: map[string]*vm.Kernel{}, accel: vm.FindAccel(), only: words}
	t.Logf("machines by %s", h.accel)
	t.Cleanup(func() { t.Log("tests in the machines:\n" + h.table()) })
	any := false
	for _, shared := range boots() {
		shared = slices.DeleteFunc(shared, func(m machine) bool { return !m.wanted(words) || !h.runs(1, m.bootName()) || !h.runs(2, m.name) })
		if len(shared) == 0 {
			continue
		}
		any = true
		t.Run(shared[0].bootName(), func(t *testing.T) {
			t.Parallel() // as many at a time as go test's -parallel says
			h.run(t, shared)
		})
	}
	require.True(t, any, "-run names no boot and machine of e2e/vmset_linux_test.go")
}

// TestBootsAreOne makes sure that machines which share a boot differ only in what /init can change without one.
func TestBootsAreOne(t *testing.T) {
	for _, shared := range boots() {
		for i, m := range shared {
			first := shared[0]
			one := []any{m.line, m.arch, m.root, m.append, m.memory, m.full, m.host.ReadOnly}
			require.Equal(t, []any{first.line, first.arch, first.root, first.append, first.memory, first.full, first.host.ReadOnly}, one, m.name)
			require.True(t, i == 0 || !m.host.InitramfsTop, "%s: only the first host of a boot can keep the initramfs", m.name)
			require.True(t, i == len(shared)-1 || m.host.AppArmor == "", "%s: only the last host of a boot can load profiles", m.name)
		}
	}
	require.LessOrEqual(t, len(boots()), 15, "boots, those of the full set included: a new kind of host joins one where it can")
}
