// Goclient reaches servers as Go programs do: statically linked, with Go's own resolver.
//
//	goclient keepalive|h2|upgrade HOST
//	goclient udp PORT HOST HOST
//
// keepalive sends three requests over one connection, h2 sends two requests at once over one connection of HTTP/2, and upgrade sends an echo over a
// connection that has left HTTP. udp sends to two hosts from one socket.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "keepalive":
		err = keepalive(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "h2":
		err = h2(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "upgrade":
		err = upgrade(os.Args[2])
	case len(os.Args) == 5 && os.Args[1] == "udp":
		err = udp(os.Args[2], os.Args[3:])
	default:
		err = errors.New("usage: goclient keepalive|h2|upgrade HOST, or goclient udp PORT HOST HOST")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "goclient:", err)
		os.Exit(1)
	}
}

// get prints the answer to one request.
func get(client *http.Client, trace *httptrace.ClientTrace, url string) error {
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Print(string(text))
	return err
}

// counting counts new connections.
func counting(n *atomic.Int32) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			n.Add(1)
		}
	}}
}

func keepalive(host string) error {
	client := &http.Client{Timeout: 20 * time.Second}
	var connections atomic.Int32
	for range 3 {
		if err := get(client, counting(&connections), "http://"+host+"/hello"); err != nil {
			return err
		}
	}
	fmt.Println("connections:", connections.Load())
	return nil
}

func h2(host string) error {
	ca, err := os.ReadFile(os.Getenv("SSL_CERT_FILE"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	var connections atomic.Int32
	if err := get(client, counting(&connections), "https://"+host+"/hello"); err != nil {
		return err
	}
	both := make(chan error)
	for range 2 {
		go func() { both <- get(client, counting(&connections), "https://"+host+"/hello") }()
	}
	err = errors.Join(<-both, <-both)
	fmt.Println("connections:", connections.Load())
	return err
}

func upgrade(host string) error {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(host, "80"), 20*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "GET /upgrade HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", host)
	from := bufio.NewReader(c)
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return errors.New(answer.Status)
	}
	for _, line := range []string{"\x00\x01 no HTTP\n", "GET / HTTP/1.1\n"} {
		fmt.Fprint(c, line)
		got, err := from.ReadString('\n')
		if err != nil {
			return err
		}
		fmt.Printf("echo %q\n", got)
	}
	return nil
}

// udp sends to all hosts at once, and checks that every answer comes from the address that it was sent to.
func udp(port string, hosts []string) error {
	c, err := net.ListenPacket("udp4", ":0")
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	byAddress := map[string]string{}
	for _, host := range hosts {
		to, err := net.ResolveUDPAddr("udp4", net.JoinHostPort(host, port))
		if err != nil {
			return err
		}
		byAddress[to.String()] = host
		if _, err := c.WriteTo([]byte("from "+host), to); err != nil {
			return err
		}
	}
	buf := make([]byte, 512)
	for range hosts {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		host := byAddress[from.String()]
		if !strings.HasSuffix(string(buf[:n]), " from "+host) {
			return fmt.Errorf("%s, which is %q, sent %q", from, host, buf[:n])
		}
		fmt.Printf("%s: %s\n", host, buf[:n])
	}
	return nil
}
