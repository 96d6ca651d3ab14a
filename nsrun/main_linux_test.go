package nsrun_test

import (
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun"
)

func TestMain(m *testing.M) {
	nsrun.Init()
	os.Exit(testenv.Main(m.Run))
}
