package nethost

import (
	"io"
	"net"
	"testing"

	"github.com/nsrun/nsrun/internal/wire"
	"github.com/stretchr/testify/require"
)

// source sends zeros until the client has gone.
func source(c *net.TCPConn) {
	for b := make([]byte, 256<<10); ; {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// BenchmarkThroughput is a download, directly over the loopback and from inside.
func BenchmarkThroughput(b *testing.B) {
	const size = 256 << 20
	server := listen(b, source)
	h := newHost()
	h.put("", "93.184.216.34", 9000, server)
	box := newBox(b, h, "93.184.216.34:9000")
	for name, open := range map[string]func() (net.Conn, error){
		"direct": func() (net.Conn, error) { return net.Dial("tcp4", server) },
		"inside": func() (net.Conn, error) { return box.open("tcp4", "93.184.216.34:9000") },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				c, err := open()
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, io.LimitReader(c, size))
				require.NoError(b, err)
				c.Close()
			}
		})
	}
}

// BenchmarkConnect is the median time of a connect and the first byte, directly over the loopback and from inside, where the rule is for a name.
func BenchmarkConnect(b *testing.B) {
	server := listen(b, echo)
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 9000, server)
	box := newBox(b, h, "a.example.com:9000")
	addrs, err := box.resolver().LookupHost(b.Context(), "a.example.com.")
	require.NoError(b, err)
	b.Run("direct", func(b *testing.B) {
		for b.Loop() {
			median, err := roundTrips("tcp4", server, 200)
			require.NoError(b, err)
			b.ReportMetric(float64(median.Microseconds()), "us/median")
		}
	})
	b.Run("inside", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, wire.Send(box.socket, request{Network: "tcp4", Dial: addrs[0] + ":9000", Times: 200}))
			var r reply
			_, err := wire.Receive(box.socket, &r)
			require.NoError(b, err)
			b.ReportMetric(float64(r.Median.Microseconds()), "us/median")
		}
	})
}
