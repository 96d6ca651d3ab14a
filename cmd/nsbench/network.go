package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nsrun/nsrun/nsrun"
	_ "github.com/nsrun/nsrun/nsrun/network" // this program is its own network helper
)

// Of a download, and of a series of connections with a small answer each.
const (
	downloadSize = 512 << 20
	connections  = 200
)

// network measures what an allow-list adds to a start, to connections and to a download, against no sandbox, the host's network in one, and an HTTP
// proxy. The server is this process, at an address of this host's own that is no loopback, since inside that is the sandbox's.
func (b *bench) network() error {
	rule := "example.com:443"
	start := []*contender{
		{name: "nsrun run --net none", argv: []string{b.nsrun, "run", "--", "/bin/true"}, base: true},
		{name: "nsrun run --net host", argv: []string{b.nsrun, "run", "--net", "host", "--", "/bin/true"}},
		{name: "nsrun run --net allow", argv: []string{b.nsrun, "run", "--net", "allow:" + rule, "--", "/bin/true"}},
	}
	if _, err := os.Stat(filepath.Join(b.dir, helperName)); err != nil {
		b.leaveOut("network", helperName, "it is not beside "+b.options.nsrun)
		return nil
	}
	if err := b.hold(contest{title: "network: start", rounds: b.share(1), contenders: start}); err != nil {
		return err
	}
	if err := b.networkSessions(rule); err != nil {
		return err
	}
	program, err := exec.LookPath("curl")
	if err != nil {
		b.leaveOut("network", "curl", "it is not on PATH")
		return nil
	}
	own, err := ownAddress()
	if err != nil {
		b.leaveOut("network", "a server", err.Error())
		return nil
	}
	server, err := serveHere("0.0.0.0", http.HandlerFunc(answer)) // for pasta, see otherNetworks
	if err != nil {
		return err
	}
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		return err
	}
	address := net.JoinHostPort(own, port)
	proxy, err := serveHere("127.0.0.1", http.HandlerFunc(tunnel))
	if err != nil {
		return err
	}
	defer proxy.Close()
	for _, c := range []struct {
		title, path string
		part        int
	}{
		{fmt.Sprintf("network: %d connections", connections), fmt.Sprintf("/small/[1-%d]", connections), 4},
		{fmt.Sprintf("network: a download of %d MiB", downloadSize>>20), "/large", 8},
	} {
		curl := []string{program, "-sS", "-f", "-o", "/dev/null"}
		url := "http://" + address + c.path
		in := func(network string) []string {
			return append([]string{b.nsrun, "run", "--net", network, "--"}, append(curl, url)...)
		}
		all := []*contender{
			{name: "no sandbox", argv: append(curl[:len(curl):len(curl)], url), base: true},
			{name: "nsrun run --net host", argv: in("host")},
			{name: "nsrun run --net allow", argv: in("allow:" + address)},
			{name: "no sandbox, an HTTP proxy", argv: append(curl[:len(curl):len(curl)], "--proxytunnel", "--proxy", "http://"+proxy.Addr, url)},
		}
		if c.path == "/large" {
			all = append(all, b.otherNetworks(curl, url, port)...)
		}
		if err := b.hold(contest{title: c.title, rounds: b.share(c.part), contenders: all}); err != nil {
			return err
		}
	}
	return nil
}

// networkSessions measures what an allow-list adds to a session and to its commands. The helper is this program.
func (b *bench) networkSessions(rule string) error {
	var execs, opens []*contender
	for _, c := range []struct {
		name   string
		policy *nsrun.Builder
	}{{"none", nsrun.NewPolicy()}, {"allow", nsrun.NewPolicy().Allow(rule)}} {
		policy, err := c.policy.ReadOnly(filepath.Dir(b.nothing)).Build()
		if err != nil {
			return err
		}
		warm, err := nsrun.Open(context.Background(), policy)
		if err != nil {
			return err
		}
		defer warm.Close()
		exec, open := b.warm(warm), opening("open a session, network "+c.name, policy)
		exec.name, exec.plotted = "exec in a session, network "+c.name, false
		execs, opens = append(execs, exec), append(opens, open)
	}
	execs[0].base, opens[0].base = true, true
	err := b.hold(contest{title: "network: exec in a session", rounds: b.rounds, contenders: execs})
	if err == nil {
		err = b.hold(contest{title: "network: open a session", rounds: b.share(1), contenders: opens})
	}
	return err
}

// ownAddress is an IPv4 address of this host's own that is no loopback.
func ownAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("this host has no address but its loopback's")
}

func serveHere(address string, handler http.Handler) (*http.Server, error) {
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{Addr: l.Addr().String(), Handler: handler}
	go func() { _ = s.Serve(l) }()
	return s, nil
}

// answer is a small answer on a connection of its own, or a large one.
func answer(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/small/") {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "small\n")
		return
	}
	chunk := make([]byte, 1<<20)
	for range downloadSize / len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// tunnel is a proxy that knows CONNECT alone.
func tunnel(w http.ResponseWriter, r *http.Request) {
	to, err := net.Dial("tcp", r.Host)
	if err != nil || r.Method != http.MethodConnect {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer to.Close()
	w.WriteHeader(http.StatusOK)
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	go func() { _, _ = io.Copy(to, buffered) }()
	_, _ = io.Copy(from, to)
}
