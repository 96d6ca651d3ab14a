package network

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// The addresses of the internet. Those of addresses are in its resolver's zone.
const (
	hostAddress  = "192.0.2.1"
	nameServer   = "192.0.2.53"
	webAddress   = "203.0.113.10" // of all names below test, unless the zone has another one
	otherAddress = "203.0.113.11" // of other.test
	webAddress6  = "2001:db8::10" // of no name
	// Servers that a sandbox must not reach by a name.
	privateAddress  = "10.1.2.3"
	metadataAddress = "169.254.169.254"
	homeAddress     = "203.0.114.5" // no interface of the host has it, but a route leads it home
)

// zone is what the resolver knows beside *.test, which is webAddress.
var zone = map[string]string{
	"private.test": privateAddress, "loop.test": "127.0.0.1", "meta.test": metadataAddress, "own.test": hostAddress, "home.test": homeAddress, "dead.test": "203.0.113.250",
	"other.test": otherAddress, "npm.test": "203.0.113.21", "pypi.test": "203.0.113.22", "goproxy.test": "203.0.113.23",
}

// internet is a network namespace, its resolver's count of questions, and the packets that have gone there.
var internet struct {
	namespace *os.File
	v6        bool // it has IPv6
	mu        sync.Mutex
	asked     map[string]int // by name
	packets   map[string]int // by "protocol address:port", of what the host has sent to it
}

// in runs f on a thread in the internet's network namespace. Sockets that f opens stay there.
func in(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(internet.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// makeInternet makes the namespace, the pair of devices, the files that name the resolver, and the resolver.
func makeInternet(dir string) error {
	internet.asked, internet.packets = map[string]int{}, map[string]int{}
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	if err := holder.Start(); err != nil {
		return err
	}
	var err error
	if internet.namespace, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)); err != nil {
		return err
	}
	pid := fmt.Sprint(holder.Process.Pid)
	err = ip("link set lo up", "link add up0 type veth peer name down0 netns "+pid, "addr add "+hostAddress+"/24 dev up0", "link set up0 up", "route add local "+homeAddress+" dev lo", "route add default via 192.0.2.2")
	err = errors.Join(err, in(func() error {
		return ip("link set lo up", "addr add 192.0.2.2/24 dev down0", "link set down0 up", "route add local 203.0.113.0/24 dev lo", "route add local "+nameServer+" dev lo",
			"route add local "+privateAddress+" dev lo", "route add local "+metadataAddress+" dev lo")
	}))
	if _, without := os.Stat("/proc/sys/net/ipv6"); err == nil && without == nil {
		internet.v6 = true
		err = errors.Join(ip("-6 addr add 2001:db8:1::1/64 dev up0 nodad", "-6 route add default via 2001:db8:1::2"), in(func() error {
			return ip("-6 addr add 2001:db8:1::2/64 dev down0 nodad", "-6 route add local 2001:db8::/64 dev lo", "-6 addr add "+webAddress6+"/128 dev lo nodad")
		}))
	}
	err = errors.Join(err, holder.Process.Kill())
	_ = holder.Wait() // the namespace stays by its descriptor
	if err != nil {
		return err
	}
	return errors.Join(nameFiles(dir), serveNames(), capture())
}

func ip(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, out)
		}
	}
	return nil
}

// nameFiles mounts files over those of /etc that resolvers read, in this mount namespace. The user of the tests has a name: ssh gives up without.
func nameFiles(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"passwd":      string(users) + fmt.Sprintf("tester:x:%d:%d::/:/bin/sh\n", testUser, testUser),
		"resolv.conf": "nameserver " + nameServer + "\n", "hosts": "127.0.0.1 localhost\n203.0.113.77 listed.hosts.test\n", "nsswitch.conf": "hosts: files dns\npasswd: files\ngroup: files\n",
	} {
		file := filepath.Join(dir, name)
		target, err := filepath.EvalSymlinks("/etc/" + name)
		if err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o644), unix.Mount(file, target, "", unix.MS_BIND, "")); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// serveNames answers and counts. For far.test it takes a while.
func serveNames() error {
	return in(func() error {
		conn, err := net.ListenPacket("udp4", nameServer+":53")
		if err != nil {
			return err
		}
		go func() {
			buf := make([]byte, 1500)
			for {
				n, from, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				query := slices.Clone(buf[:n])
				go func() {
					if bytes.Contains(query, []byte("\x03far\x04test\x00")) {
						time.Sleep(100 * time.Millisecond)
					}
					if answer, err := resolve(query); err == nil {
						_, _ = conn.WriteTo(answer, from)
					}
				}()
			}
		}()
		return nil
	})
}

func resolve(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, errors.New("no query")
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	internet.mu.Lock()
	internet.asked[name]++
	internet.mu.Unlock()
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	address, ok := zone[name]
	if !ok && strings.HasSuffix(name, ".test") {
		address, ok = webAddress, name != "missing.test"
	}
	switch {
	case !ok:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0},
			Body: &dnsmessage.AResource{A: [4]byte(net.ParseIP(address).To4())}}}
	}
	return m.Pack()
}

// capture notes every packet that the host sends to the internet.
func capture() error {
	const all, ipv4, ipv6 = unix.ETH_P_ALL << 8, unix.ETH_P_IP >> 8, unix.ETH_P_IPV6&0xff<<8 | unix.ETH_P_IPV6>>8 // in network byte order; of one protocol, what is sent is not seen (dev_queue_xmit_nit)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all)
	if err != nil {
		return err
	}
	device, err := net.InterfaceByName("up0")
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: device.Index})
	}
	if err != nil {
		return err
	}
	go func() {
		buf := make([]byte, 65536)
		for {
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return
			}
			if at, ok := from.(*unix.SockaddrLinklayer); ok && at.Pkttype == unix.PACKET_OUTGOING && (at.Protocol == ipv4 || at.Protocol == ipv6) && n >= 20 {
				note(buf[:n])
			}
		}
	}()
	return nil
}

// note counts a packet, but for ICMPv6, by which neighbours find each other, and for "port unreachable", with which the kernel answers
// what a server sends when the run that it is for has ended: one of HTTP/3 does so for 30 s.
func note(p []byte) {
	head, protocol := int(p[0]&15)*4, p[9]
	to := net.IP(p[16:20])
	if p[0]>>4 == 6 {
		if head = 40; len(p) < head || p[6] == unix.IPPROTO_ICMPV6 || p[6] == 0 { // 0: hop-by-hop options, which MLD (ICMPv6) has
			return
		}
		protocol, to = p[6], net.IP(p[24:40])
	}
	if len(p) < head+4 || protocol == unix.IPPROTO_ICMP && p[head] == 3 && p[head+1] == 3 {
		return
	}
	key := fmt.Sprintf("%d %s", protocol, net.JoinHostPort(to.String(), strconv.Itoa(int(p[head+2])<<8|int(p[head+3]))))
	internet.mu.Lock()
	internet.packets[key]++
	internet.mu.Unlock()
}

// marker is a packet that nothing else sends.
const marker = "17 203.0.113.99:9"

// mark sends it, and waits until it was captured: so was everything before it.
func mark() {
	conn, err := net.Dial("udp4", "203.0.113.99:9")
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	internet.mu.Lock()
	was := internet.packets[marker]
	internet.mu.Unlock()
	for seen := false; !seen; time.Sleep(time.Millisecond) {
		_, _ = conn.Write([]byte("mark"))
		internet.mu.Lock()
		seen = internet.packets[marker] > was
		internet.mu.Unlock()
	}
}

// forget begins a new count.
func forget() {
	mark()
	internet.mu.Lock()
	defer internet.mu.Unlock()
	clear(internet.asked)
	clear(internet.packets)
}

// left returns the names that were asked for, and the places that packets were sent to, since forget.
func left() (asked, packets []string) {
	mark()
	internet.mu.Lock()
	defer internet.mu.Unlock()
	for name := range internet.asked {
		asked = append(asked, name)
	}
	for key := range internet.packets {
		if key == marker {
			continue
		}
		packets = append(packets, key)
	}
	return asked, packets
}
