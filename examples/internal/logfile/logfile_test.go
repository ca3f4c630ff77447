package logfile

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func zipped(t *testing.T, text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

func TestOpen(t *testing.T) {
	for file, want := range map[string]string{
		"": "", "a": "a", "a\nb": "a\nb", "\xef\xbb\xbfa": "a", "\xef\xbb": "\xef\xbb", "\x1f": "\x1f",
		zipped(t, "a\nb"): "a\nb", zipped(t, "\xef\xbb\xbfa"): "a", zipped(t, ""): "",
	} {
		name := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(name, []byte(file), 0o600))
		for _, name := range []string{name, "-"} {
			f, err := Open(name, strings.NewReader(file))
			require.NoError(t, err, "%q", file)
			got, err := io.ReadAll(f)
			require.NoError(t, err, "%q", file)
			require.Equal(t, want, string(got))
			require.NoError(t, f.Close())
		}
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "none"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open("-", strings.NewReader("\x1f\x8bnonsense of gzip"))
	require.ErrorIs(t, err, gzip.ErrHeader)
	f, err := Open("-", strings.NewReader(zipped(t, strings.Repeat("abcdefg", 99))[:30]))
	require.NoError(t, err)
	_, err = io.ReadAll(f)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	f, err = Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer f.Close()
	_, err = io.ReadAll(f)
	require.ErrorContains(t, err, "is a directory")
}
