package guest_test

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/e2e/vm/guest"
)

func TestFramesComeBack(t *testing.T) {
	frames := []guest.Frame{
		{Kind: guest.Up, Name: "6.1.0", Data: []byte{}},
		{Kind: guest.Out, Name: "user", Data: []byte("no newline, and\nF out user 3\nabc looks like a frame")},
		{Kind: guest.Out, Name: "user", Data: []byte{0, 1, 2, '\n', 255}},
		{Kind: guest.Halt, Name: "-", Data: []byte{}},
	}
	var line bytes.Buffer
	line.WriteString("SeaBIOS (version 1)\r\n\nF is not a frame\n")
	for _, f := range frames {
		require.NoError(t, guest.Write(&line, f))
	}
	r := bufio.NewReader(&line)
	for _, want := range frames {
		got, err := guest.Read(r)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := guest.Read(r)
	assert.ErrorIs(t, err, io.EOF)
}

func TestBrokenFrames(t *testing.T) {
	_, err := guest.Read(bufio.NewReader(strings.NewReader("F out user 10\nshort")))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = guest.Read(bufio.NewReader(strings.NewReader("F out user 99999999\nx")))
	assert.ErrorContains(t, err, "99999999")
	_, err = guest.Read(bufio.NewReader(strings.NewReader("F out user -1\nx")))
	assert.Error(t, err)
}
