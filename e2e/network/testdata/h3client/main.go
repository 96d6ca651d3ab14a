// H3client gets a page by HTTP/3, over QUIC, and prints it, or the SHA-256 of what is longer than a page.
//
//	h3client HOST PATH [NAME]
//
// NAME is the server name for TLS, instead of HOST. The certificates that sign are those of SSL_CERT_FILE.
package main

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "h3client:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("usage: h3client HOST PATH [NAME]")
	}
	transport := &http3.Transport{TLSClientConfig: &tls.Config{}, QUICConfig: &quic.Config{HandshakeIdleTimeout: 5 * time.Second}}
	if len(args) == 3 {
		transport.TLSClientConfig.ServerName = args[2]
	}
	defer transport.Close()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	answer, err := client.Get("https://" + args[0] + args[1])
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	const page = 4096
	if len(text) > page {
		fmt.Printf("%x\n", sha256.Sum256(text))
		return nil
	}
	fmt.Print(string(text))
	return nil
}
