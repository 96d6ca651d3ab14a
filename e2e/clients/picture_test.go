package clients_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"slices"
)

// mark is the metadata of the pictures.
const mark = "taken by nsrun"

func picture() image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, 640, 400))
	for x := range 640 {
		for y := range 400 {
			m.Set(x, y, color.NRGBA{uint8(x / 4), uint8(y / 2), 90, 255})
		}
	}
	return m
}

// markedPNG is the picture with an author, in a chunk after the header.
func markedPNG() string {
	var b bytes.Buffer
	if err := png.Encode(&b, picture()); err != nil {
		panic("bug: " + err.Error())
	}
	const header = 8 + 25 // signature and IHDR
	body := []byte("tEXtAuthor\x00" + mark)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4)) // the name does not count
	chunk = append(chunk, body...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(body))
	return string(slices.Insert(b.Bytes(), header, chunk...))
}

// markedJPEG is the picture with a comment, in a segment after the start.
func markedJPEG() string {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, picture(), nil); err != nil {
		panic("bug: " + err.Error())
	}
	segment := []byte{0xff, 0xfe, 0, byte(2 + len(mark))}
	return string(slices.Insert(b.Bytes(), 2, append(segment, mark...)...))
}

// size says how large the picture in a file is.
func size(path string) (string, error) {
	m, err := open(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d x %d", m.Bounds().Dx(), m.Bounds().Dy()), nil
}

func open(path string) (image.Image, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, _, err := image.Decode(bytes.NewReader(data))
	return m, err
}

// samePicture reports whether two files show the same.
func samePicture(a, b string) (bool, error) {
	m, err := open(a)
	if err != nil {
		return false, err
	}
	n, err := open(b)
	if err != nil || m.Bounds() != n.Bounds() {
		return false, err
	}
	for x := range m.Bounds().Dx() {
		for y := range m.Bounds().Dy() {
			if m.At(x, y) != n.At(x, y) {
				return false, nil
			}
		}
	}
	return true, nil
}
