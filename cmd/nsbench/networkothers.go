package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
)

// slirp is a script for bash that runs a command in a network namespace which slirp4netns serves.
const slirp = `set -e
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
mkfifo "$dir/in" "$dir/go" "$dir/ready"
unshare --user --map-root-user --net sh -c 'echo in >"$0/in"; read -r go <"$0/go"; exec "$@"' "$dir" "$@" &
pid=$!
read -r in <"$dir/in"
slirp4netns --configure --mtu=65520 --disable-dns --ready-fd=3 "$pid" tap0 3>"$dir/ready" >/dev/null 2>&1 &
slirp=$!
head -c 1 "$dir/ready" >/dev/null
echo go >"$dir/go"
wait "$pid"
kill "$slirp"
wait "$slirp" || true`

// otherNetworks are other ways to give a command a network, without root: slirp4netns and pasta, where they are installed and may open /dev/net/tun. By both it can
// reach all that the host does.
func (b *bench) otherNetworks(curl []string, url, port string) (all []*contender) {
	for _, other := range []struct {
		name   string
		before func() ([]string, error)
		host   func() (string, error) // where the server is; nil where it is at the host's address
	}{
		{name: "slirp4netns", before: slirpArgv},
		{name: "pasta", before: pastaArgv, host: defaultGateway}, // for the host's loopback: its own address is the namespace's
	} {
		argv, err := other.before()
		if err == nil {
			err = tunnels()
		}
		to := url
		if err == nil && other.host != nil {
			var host string
			host, err = other.host()
			to = "http://" + net.JoinHostPort(host, port) + "/large"
		}
		if err != nil {
			b.leaveOut("network", other.name, err.Error())
			continue
		}
		all = append(all, &contender{name: other.name, argv: append(append(argv, curl...), to)})
	}
	return all
}

// slirpArgv is what runs the command that follows it in a network of slirp4netns.
func slirpArgv() ([]string, error) {
	_, err := exec.LookPath("slirp4netns")
	if err != nil {
		return nil, err
	}
	bash, err := exec.LookPath("bash")
	return []string{bash, "-c", slirp, "slirp"}, err
}

// pastaArgv is what runs the command that follows it in a network of pasta.
func pastaArgv() ([]string, error) {
	pasta, err := exec.LookPath("pasta")
	argv := []string{pasta, "--quiet", "--config-net", "-t", "none", "-u", "none", "-T", "none", "-U", "none"}
	if os.Getuid() == 0 {
		argv = append(argv, "--runas", "0:0") // else it takes another user, who may not open /dev/net/tun
	}
	return append(argv, "--"), err
}

// tunnels reports whether this user can open what both make their networks of.
func tunnels() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// defaultGateway is that of IPv4: proc_pid_net(5), route.
func defaultGateway() (string, error) {
	data, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "00000000" {
			if b, err := hex.DecodeString(fields[2]); err == nil && len(b) == 4 {
				return netip.AddrFrom4([4]byte(binary.LittleEndian.AppendUint32(nil, binary.BigEndian.Uint32(b)))).String(), nil
			}
		}
	}
	return "", errors.New("this host has no default route")
}
