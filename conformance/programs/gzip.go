package programs

import (
	"bytes"
	"compress/gzip"
	"io"
)

func gunzip(b []byte) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
}
