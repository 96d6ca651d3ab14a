package network

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The ports of the internet's servers, all at 203.0.113.0/24 and on the host's loopback.
const (
	echoPort   = 7000 // what is sent comes back
	bannerPort = 2222 // the server speaks first
	redisPort  = 6379 // +PONG
	udpPort    = 9999
)

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
	all := func(udp string) error { return errors.Join(serveHTTP(www, config), serveOthers(udp)) }
	return errors.Join(in(func() error { return all(webAddress) }), all(hostAddress))
}

func serveHTTP(www string, config *tls.Config) error {
	files := http.FileServer(http.Dir(www))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		hit(host + " " + r.URL.Path)
		switch {
		case r.URL.Path == "/upload":
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%d bytes\n", n)
		case r.URL.Path == "/hello":
			fmt.Fprintf(w, "hello from %s by %s\n", host, r.Proto)
		default:
			http.StripPrefix("", files).ServeHTTP(w, r)
		}
	})
	plain, err := net.Listen("tcp4", "0.0.0.0:80")
	if err != nil {
		return err
	}
	secure, err := net.Listen("tcp4", "0.0.0.0:443")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, TLSConfig: config}
	go func() { _ = server.Serve(plain) }()
	go func() { _ = server.ServeTLS(secure, "", "") }()
	return nil
}

// serveOthers serves UDP at one address, as it answers from that.
func serveOthers(udp string) error {
	for port, talk := range map[int]func(net.Conn){
		echoPort:   func(c net.Conn) { _, _ = io.Copy(c, c) },
		bannerPort: func(c net.Conn) { fmt.Fprint(c, "220 banner\r\n"); _, _ = io.Copy(io.Discard, c) },
		redisPort: func(c net.Conn) {
			lines := bufio.NewScanner(c)
			for lines.Scan() {
				if strings.EqualFold(lines.Text(), "ping") {
					fmt.Fprint(c, "+PONG\r\n")
				}
			}
		},
	} {
		l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
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
				go func() { defer c.Close(); talk(c) }()
			}
		}()
	}
	conn, err := net.ListenPacket("udp4", fmt.Sprintf("%s:%d", udp, udpPort))
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
			_, _ = conn.WriteTo(append([]byte("echo "), buf[:n]...), from)
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
