// The program names looks names up with Go's own resolver, and prints what it gets.
package main

import (
	"context"
	"fmt"
	"net"
)

func main() {
	resolver := net.Resolver{PreferGo: true}
	for _, name := range []string{"localhost", "example.com"} {
		addresses, err := resolver.LookupIP(context.Background(), "ip4", name)
		fmt.Println(name, addresses, err)
	}
}
