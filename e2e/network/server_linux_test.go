package network

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The ports of the internet's servers, all at 203.0.113.0/24 and on the host's loopback.
const (
	echoPort     = 7000 // what is sent comes back
	bannerPort   = 2222 // the server speaks first
	sshPort      = 22   // likewise
	redisPort    = 6379 // +PONG
	postgresPort = 5432 // an error in the protocol of PostgreSQL
	deafPort     = 2323 // nothing that is sent is read
	lenientPort  = 8088 // HTTP by a server that looks at the last Host alone
	udpPort      = 9999 // "echo ", or "other " at otherAddress, and what was sent
)

// downloadSize is what /download of HTTP gives, in bytes, and downloadSum its SHA-256.
const downloadSize = 20 << 20

var downloadSum = fmt.Sprintf("%x", sha256.Sum256(bytes.Repeat([]byte("down"), downloadSize/4)))

// hits counts what the servers got, by "host path" of HTTP, and by "tcp port".
var hits struct {
	sync.Mutex
	of map[string]int
}

func hit(key string) {
	hits.Lock()
	defer hits.Unlock()
	if hits.of == nil {
		hits.of = map[string]int{}
	}
	hits.of[key]++
}

func hitsOf(key string) int {
	hits.Lock()
	defer hits.Unlock()
	return hits.of[key]
}

// serve starts the servers of the internet, and the same ones on the host, whose root for HTTP is www. The certificate of the CA is written to ca.
func serve(www, ca string) error {
	config, err := certificate(ca)
	if err != nil {
		return err
	}
	packages, err := makeRegistries()
	if err != nil {
		return err
	}
	handler := pages(www, packages)
	return errors.Join(in(func() error {
		err := errors.Join(serveHTTP(handler, config), serveHTTP3(handler, config), serveOthers(), serveUDP(webAddress, "echo "), serveUDP(otherAddress, "other "))
		if internet.v6 {
			err = errors.Join(err, serveUDP(webAddress6, "six "))
		}
		return err
	}), serveHTTP(handler, config), serveOthers(), serveUDP(hostAddress, "echo "))
}

// pages are what HTTP has, of any version. Hosts with a handler in packages have that.
func pages(www string, packages map[string]http.Handler) http.Handler {
	files := http.FileServer(http.Dir(www))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		hit(host + " " + r.URL.Path)
		switch {
		case packages[host] != nil && r.URL.Path != "/hello":
			packages[host].ServeHTTP(w, r)
		case r.URL.Path == "/upgrade":
			upgrade(w)
		case r.URL.Path == "/download":
			_, _ = w.Write(bytes.Repeat([]byte("down"), downloadSize/4))
		case r.URL.Path == "/upload":
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%d bytes\n", n)
		case r.URL.Path == "/hello":
			fmt.Fprintf(w, "hello from %s by %s\n", host, r.Proto)
		default:
			http.StripPrefix("", files).ServeHTTP(w, r)
		}
	})
}

// serveHTTP serves HTTP/1.1 and HTTP/2, on port 80 also without TLS.
func serveHTTP(handler http.Handler, config *tls.Config) error {
	plain, err := net.Listen("tcp", ":80")
	if err != nil {
		return err
	}
	secure, err := net.Listen("tcp", ":443")
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, TLSConfig: config, Protocols: &protocols}
	go func() { _ = server.Serve(plain) }()
	go func() { _ = server.ServeTLS(secure, "", "") }()
	return nil
}

// upgrade leaves HTTP, as a WebSocket does, and echoes.
func upgrade(w http.ResponseWriter) {
	conn, from, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_, _ = io.Copy(conn, from)
}

// serveOthers serves the other ports of TCP, by IPv4 and IPv6.
func serveOthers() error {
	for port, talk := range map[int]func(net.Conn){
		sshPort: func(c net.Conn) {
			fmt.Fprint(c, "SSH-2.0-test\r\n")
			_ = c.(*net.TCPConn).CloseWrite() // a close would be a reset, as the client has sent something by then
			_, _ = io.Copy(io.Discard, c)
		},
		postgresPort: postgres,
		lenientPort:  lenient,
		deafPort:     func(net.Conn) { time.Sleep(time.Minute) },
		echoPort:     func(c net.Conn) { _, _ = io.Copy(c, c) },
		bannerPort:   func(c net.Conn) { fmt.Fprint(c, "220 banner\r\n"); _, _ = io.Copy(io.Discard, c) },
		redisPort: func(c net.Conn) {
			lines := bufio.NewScanner(c)
			for lines.Scan() {
				if strings.EqualFold(lines.Text(), "ping") {
					fmt.Fprint(c, "+PONG\r\n")
				}
			}
		},
	} {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				hit(fmt.Sprintf("tcp %d", port))
				go func() {
					defer hit(fmt.Sprintf("end of tcp %d", port))
					defer c.Close()
					talk(c)
				}()
			}
		}()
	}
	return nil
}

// lenient answers a request of HTTP for the last Host in it.
func lenient(c net.Conn) {
	host := ""
	lines := bufio.NewScanner(c)
	for lines.Scan() && lines.Text() != "" {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.EqualFold(name, "host") {
			host = strings.TrimSpace(value)
		}
	}
	fmt.Fprintf(c, "HTTP/1.0 200 OK\r\n\r\nhello from %s\n", host)
}

// postgres refuses TLS, and then the session: PostgreSQL's protocol 3.0, "Message Formats".
func postgres(c net.Conn) {
	const sslRequest, gssRequest = 80877103, 80877104
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		switch binary.BigEndian.Uint32(head[4:]) {
		case sslRequest, gssRequest:
			fmt.Fprint(c, "N")
			continue
		}
		_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head))-8)
		text := "SFATAL\x00C28000\x00Mno such role at the tests' server\x00\x00"
		_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte("E"), uint32(4+len(text))), text...))
		return
	}
}

// serveUDP answers from one address with what was sent, after a prefix.
func serveUDP(address, prefix string) error {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(address, strconv.Itoa(udpPort)))
	if err != nil {
		return err
	}
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			hit(fmt.Sprintf("udp %d", udpPort))
			_, _ = conn.WriteTo(append([]byte(prefix), buf[:n]...), from)
		}
	}()
	return nil
}

// certificate is one for all names of the tests, by a CA of its own, whose certificate is written to a file.
func certificate(file string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	valid := x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true}
	ca, leaf := valid, valid
	ca.SerialNumber, ca.Subject, ca.IsCA, ca.KeyUsage = big.NewInt(1), pkix.Name{CommonName: "tests"}, true, x509.KeyUsageCertSign
	leaf.SerialNumber, leaf.Subject, leaf.KeyUsage, leaf.ExtKeyUsage = big.NewInt(2), pkix.Name{CommonName: "listed.test"}, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf.DNSNames = []string{"listed.test", "other.test", "npm.test", "pypi.test", "goproxy.test", "git.test", "a.wild.test", "b.a.wild.test", "unlisted.test", "listed.hosts.test"}
	leaf.IPAddresses = []net.IP{net.ParseIP(webAddress)}
	signer, err := x509.CreateCertificate(rand.Reader, &ca, &ca, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &leaf, &ca, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signer})
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)); err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}}, nil
}
