package middleware

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestRecordFileMakesWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.jsonl")
	file, err := OpenRecordFile(path, RecordFileOptions{MaxBytes: 10, Keep: 2})
	require.NoError(t, err)
	for _, line := range []string{"1111\n", "2222\n", "3333\n", "4\n5\n", "longer than a file\n", "6666\n", "7777\n", "8888\n"} {
		n, err := file.Write([]byte(line))
		require.NoError(t, err)
		require.Equal(t, len(line), n)
	}
	require.NoError(t, file.Close())
	require.NoError(t, file.Close())
	_, err = file.Write([]byte("x\n"))
	require.ErrorIs(t, err, os.ErrClosed)

	require.Equal(t, "8888\n", content(t, path))
	require.Equal(t, "6666\n7777\n", content(t, path+".1"))
	require.Equal(t, "longer than a file\n", content(t, path+".2"))
	require.NoFileExists(t, path+".3")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
}

func TestRecordFileKeepsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.jsonl")
	file, err := OpenRecordFile(path, RecordFileOptions{MaxBytes: 10, Keep: -1})
	require.NoError(t, err)
	for range 5 {
		_, err := file.Write([]byte("1234567\n"))
		require.NoError(t, err)
	}
	require.NoError(t, file.Close())
	require.Equal(t, "1234567\n", content(t, path))
	require.NoFileExists(t, path+".1")
}

// A process that is killed leaves half a line; the next one goes on after the
// last whole one, and leaves files that are none of its alone.
func TestRecordFileOpensWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.jsonl")
	for found, want := range map[string]string{
		"":                                  "new\n",
		goodRecord + "\n":                   goodRecord + "\nnew\n",
		goodRecord + "\n" + goodRecord[:30]: goodRecord + "\nnew\n",
		goodRecord[:3]:                      "new\n",
		strings.Repeat(goodRecord+"\n", 10_000) + "{": strings.Repeat(goodRecord+"\n", 10_000) + "new\n",
	} {
		require.NoError(t, os.WriteFile(path, []byte(found), 0o600))
		file, err := OpenRecordFile(path, RecordFileOptions{})
		require.NoError(t, err)
		_, err = file.Write([]byte("new\n"))
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Equal(t, want, content(t, path))
	}
	for _, foreign := range []string{"a picture", strings.Repeat("x", 2*maxRecordLine), "line\nno"} {
		require.NoError(t, os.WriteFile(path, []byte(foreign), 0o600))
		_, err := OpenRecordFile(path, RecordFileOptions{})
		require.ErrorContains(t, err, "name another file")
		require.Equal(t, foreign, content(t, path))
	}
	_, err := OpenRecordFile(filepath.Join(path, "below a file"), RecordFileOptions{})
	require.Error(t, err)
	_, err = OpenRecordFile(path, RecordFileOptions{MaxBytes: -1})
	require.ErrorContains(t, err, "use 0")
}

// A file that cannot make way takes no more, however often it is tried.
func TestRecordFileKeepsItsSizeWhenItCannotMakeWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.jsonl")
	file, err := OpenRecordFile(path, RecordFileOptions{MaxBytes: 40, Keep: 1})
	require.NoError(t, err)
	line := `{"version":1,"time":"2026"}` + "\n"
	_, err = file.Write([]byte(line))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700))
	for range 3 {
		n, err := file.Write([]byte(line))
		require.Error(t, err)
		require.Zero(t, n)
		require.Equal(t, line, content(t, path))
	}
	require.NoError(t, os.RemoveAll(path+".1"))
	_, err = file.Write([]byte(line))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.Equal(t, line, content(t, path))
	require.Equal(t, line, content(t, path+".1"))
}

// A rotation that failed halfway has left a gap. The next try fills it, and
// loses nothing.
func TestRecordFileFillsAGap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.jsonl")
	require.NoError(t, os.WriteFile(path+".2", []byte("2\n"), 0o600))
	require.NoError(t, os.WriteFile(path+".3", []byte("3\n"), 0o600))
	file, err := OpenRecordFile(path, RecordFileOptions{MaxBytes: 4, Keep: 3})
	require.NoError(t, err)
	for _, line := range []string{"1\n", "new\n"} {
		_, err = file.Write([]byte(line))
		require.NoError(t, err)
	}
	require.NoError(t, file.Close())
	for suffix, want := range map[string]string{"": "new\n", ".1": "1\n", ".2": "2\n", ".3": "3\n"} {
		require.Equal(t, want, content(t, path+suffix))
	}
}

// When no new file can be made, writing fails, and works again when one can.
func TestRecordFileRecovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "traffic.jsonl")
	file, err := OpenRecordFile(path, RecordFileOptions{MaxBytes: 4})
	require.NoError(t, err)
	_, err = file.Write([]byte("1234\n"))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	_, err = file.Write([]byte("5678\n"))
	require.Error(t, err)
	_, err = file.Write([]byte("5678\n"))
	require.Error(t, err)
	require.NoError(t, os.Mkdir(dir, 0o700))
	_, err = file.Write([]byte("9\n"))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.Equal(t, "9\n", content(t, path))
}
