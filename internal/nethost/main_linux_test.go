package nethost

import (
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(insideVar) != "" {
		inside()
		return
	}
	os.Exit(testenv.Main(m.Run))
}
