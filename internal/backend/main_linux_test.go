package backend

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "exec-stages" { // this binary is nsrun's, inside a bubblewrap
		var fds [3]int
		for i, word := range os.Args[2:] {
			fds[i], _ = strconv.Atoi(word)
		}
		fmt.Fprintln(os.Stderr, ExecStages(fds[0], fds[1], fds[2]))
		os.Exit(1)
	}
	if os.Args[0] == HelperName { // see lie
		lie()
		os.Exit(0)
	}
	os.Exit(testenv.Main(m.Run))
}
