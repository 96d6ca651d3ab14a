package clients_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

var mat2Facts = facts{
	"in.png before":  "Author: " + mark,
	"in.png after":   "",
	"in.png cleaned": "true, same picture true, mark left false",
	"in.jpg before":  "Comment: " + mark,
	"in.jpg after":   "",
	"in.jpg cleaned": "true, same picture true, mark left false",
}

// mat2 has exiftool read and rewrite two pictures. The sandbox has the directory read-only, and below it the directory for the result.
func mat2(j *job) (facts, error) {
	if err := j.lay(map[string]string{"in.png": markedPNG(), "in.jpg": markedJPEG()}); err != nil {
		return nil, err
	}
	r, err := j.run("", "python3", "{ROOM}/testdata/mat2.py", "in.png", "in.jpg")
	if err != nil {
		return nil, err
	}
	var files map[string]struct {
		Before, After map[string]any
		Cleaned       bool
		Output        string
	}
	if err := json.Unmarshal([]byte(r.stdout), &files); err != nil {
		return nil, fmt.Errorf("%+v: %w", r, err)
	}
	f := facts{}
	for name, x := range files {
		same, err := samePicture(j.path(name), j.path(x.Output))
		if err != nil {
			return nil, err
		}
		f[name+" before"], f[name+" after"] = metadata(x.Before), metadata(x.After)
		f[name+" cleaned"] = fmt.Sprintf("%t, same picture %t, mark left %t", x.Cleaned, same, strings.Contains(j.read(x.Output), mark))
	}
	return f, nil
}

// metadata is what the test put in, of what exiftool found.
func metadata(m map[string]any) string {
	var found []string
	for _, key := range []string{"Author", "Comment"} {
		if m[key] != nil {
			found = append(found, fmt.Sprintf("%s: %v", key, m[key]))
		}
	}
	return strings.Join(found, ", ")
}

// prying is a thumbnailer that makes a picture only if it finds itself confined. It sees its input read-only and a directory for its output.
const prying = `[Thumbnailer Entry]
TryExec=/bin/sh
Exec=/bin/sh -c "test ! -e {DIR}/secret && test $(grep -c : /proc/net/dev) = 1 && ! echo x >/usr/nsrun-evil && ! echo x >>%i && cp %i %o"
MimeType=image/x-nsrun-prying;
`

var thumbnailFacts = facts{"image/png": "128 x 80", "image/x-nsrun-prying": "640 x 400"}

// thumbnail asks libgnome-desktop, which runs the thumbnailer registered for the type: gdk-pixbuf's, and one that pries.
func thumbnail(j *job) (facts, error) {
	f := facts{}
	for kind, file := range map[string]string{"image/png": "in.png", "image/x-nsrun-prying": "prying.png"} {
		err := j.lay(map[string]string{file: markedPNG(), "secret": "secret", "home/.local/share/thumbnailers/prying.thumbnailer": prying})
		if err != nil {
			return nil, err
		}
		r, err := j.run("", "python3", "{ROOM}/testdata/thumbnail.py", "{DIR}/"+file, kind)
		if err != nil {
			return nil, err
		}
		if r.exit != 0 {
			return nil, fmt.Errorf("%s: %+v", kind, r)
		}
		if f[kind], err = size(strings.TrimSpace(j.fill(r.stdout))); err != nil {
			return nil, err
		}
	}
	return f, nil
}
