package denial

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// peekString reads a path. Most are short, and the rest is read only if this one is not.
func peekString(pid uint32, at uint64) (string, bool) {
	for _, size := range []int{256, unix.PathMax} {
		have := peek(pid, at, make([]byte, size))
		if end := bytes.IndexByte(have, 0); end >= 0 {
			return string(have[:end]), true
		}
	}
	return "", false
}

// peekWord reads 64 bits.
func peekWord(pid uint32, at uint64) (uint64, bool) {
	have := peek(pid, at, make([]byte, 8))
	if len(have) < 8 {
		return 0, false
	}
	return binary.NativeEndian.Uint64(have), true
}

// readAddress reads the address of connect(2) or bind(2): one of the internet only where there is no network, as nothing is refused elsewhere.
func readAddress(e event, n sys.Notification, offline bool) []event {
	size := min(int(uint32(n.Args[2])), unix.SizeofSockaddrAny)
	if size < 3 {
		return nil
	}
	have := peek(n.PID, n.Args[1], make([]byte, size))
	if len(have) < size {
		return nil
	}
	family, ip := binary.NativeEndian.Uint16(have), netip.Addr{}
	switch {
	case family == unix.AF_UNIX && have[2] != 0:
		path, _, _ := bytes.Cut(have[2:], []byte{0})
		if e.path = string(path); e.path[0] != '/' {
			e.dir = directory(n.PID, cwd, n.Args)
		}
		return []event{e}
	case !offline:
		return nil
	case family == unix.AF_INET && size >= unix.SizeofSockaddrInet4:
		ip = netip.AddrFrom4([4]byte(have[4:8]))
	case family == unix.AF_INET6 && size >= unix.SizeofSockaddrInet6:
		ip = netip.AddrFrom16([16]byte(have[8:24]))
	default:
		return nil
	}
	const names = 53 // RFC 1035
	ip, port, own := ip.Unmap(), binary.BigEndian.Uint16(have[2:]), ip.Unmap().IsLoopback() || ip.IsUnspecified()
	switch {
	case e.call.act == bindTo:
		return nil
	case !own:
		e.path = netip.AddrPortFrom(ip, port).String()
	case port == names: // nobody answers there: a command may not bind to a port below 1024
		e.path = anyName
	case port == 0:
		return nil
	default:
		there, err := listens(strconv.Itoa(int(n.PID)), port)
		if there {
			return nil
		}
		e.path, e.port, e.unclear = netip.AddrPortFrom(ip, port).String(), port, err != nil
	}
	e.dir = inet
	return []event{e}
}

// inet stands for the directory of an address.
const inet = "internet"

// listens reports whether a process of the same network as this one, which is one of /proc, takes connections at a TCP port: proc_pid_net(5).
func listens(process string, port uint16) (bool, error) {
	const most = 64 << 10 // who takes connections comes first
	local := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open("/proc/" + process + "/net/" + table)
		if errors.Is(err, os.ErrNotExist) { // no IPv6, or no process
			continue
		}
		if err != nil {
			return false, err
		}
		for lines := bufio.NewScanner(io.LimitReader(f, most)); lines.Scan(); {
			words := strings.Fields(lines.Text()) // number, local address, remote address, state
			if len(words) > 3 && words[3] == "0A" && strings.HasSuffix(words[1], local) {
				f.Close()
				return true, nil
			}
		}
		f.Close()
	}
	return false, nil
}

// anyName stands for the path of a name that was asked for and is not known.
const anyName = "*"

// readName reads the question of a DNS message (RFC 1035), if what is sent is one.
func readName(e event, n sys.Notification) []event {

	at, size := n.Args[1], n.Args[2]
	if e.name == "sendmmsg" { // the first message's first vector
		vector, ok := peekWord(n.PID, n.Args[1]+16)
		base, ok2 := peekWord(n.PID, vector)
		length, ok3 := peekWord(n.PID, vector+8)
		if !ok || !ok2 || !ok3 {
			return nil
		}
		at, size = base, length
	}
	const header, most = 12, 512
	if size <= header || size > most {
		return nil
	}
	message := peek(n.PID, at, make([]byte, size))
	if name := question(message); name != "" {
		e.dir, e.path = inet, name
		return []event{e}
	}
	return nil
}

// question is the name that a DNS message asks for: one that is a query with one question, whose labels are those of host names.
func question(m []byte) string {
	const header = 12
	if len(m) <= header || m[2]&0xf8 != 0 || binary.BigEndian.Uint16(m[4:]) != 1 || binary.BigEndian.Uint16(m[6:]) != 0 {
		return ""
	}
	var labels []string
	for rest := m[header:]; len(rest) > 0; {
		size := int(rest[0])
		switch {
		case size == 0 && len(rest) >= 5 && len(labels) > 0:
			return strings.Join(labels, ".")
		case size == 0 || size > 63 || len(rest) <= size:
			return ""
		}
		label := string(rest[1 : 1+size])
		if strings.ContainsFunc(label, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' || r == '.' }) {
			return ""
		}
		labels, rest = append(labels, label), rest[1+size:]
	}
	return ""
}
