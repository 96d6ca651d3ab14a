package agent

import (
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }
