// Command nsrun-helper is the host side of nsrun's network mode "allow". nsrun starts it, once for each sandbox; nobody runs it by hand.
//
// It is a program of its own because the start of every program that links package net costs time, which nsrun without a network does not spend. Its work,
// and what it does not protect against, is in package nethelper.
package main

import "github.com/nsrun/nsrun/internal/nethelper"

// version is set by the linker for releases.
var version = "0.1.0-dev"

func main() { nethelper.Main(version) }
