//go:build linux && amd64 && gc && !purego

package canon

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing is read behind the end of a body: it is laid out so that it ends where
// readable memory does.
func TestMarksStayInTheBody(t *testing.T) {
	page := syscall.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(memory)) }()
	require.NoError(t, syscall.Mprotect(memory[2*page:], syscall.PROT_NONE))
	readable := memory[: 2*page : 2*page]
	for n := 2; n < 300; n++ {
		for _, size := range []int{n, n + window - 150} {
			body := readable[2*page-size:]
			copy(body, bytes.Repeat([]byte{'x'}, size))
			body[0], body[size-1] = '"', '"'
			var p parser
			p.reset(body, maxDepth)
			require.True(t, p.parse())
			body[size-1] = '\\' // the escape is cut
			p.reset(body, maxDepth)
			require.False(t, p.parse())
			body[size-1] = 'x'
			p.reset(body, maxDepth)
			require.False(t, p.parse())
		}
	}
}
