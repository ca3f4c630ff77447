//go:build gc && !purego

#include "textflag.h"

// broadcast fills the register y, of which x is the lower half, with a byte.
#define broadcast(byte, x, y) \
	MOVL $byte, AX         \
	VMOVQ AX, x            \
	VPBROADCASTB x, y

// part sets a bit for each of the 32 bytes at an offset: in stops for quotes and
// control characters, in slashes for backslashes, and in plains for what may
// follow a backslash: a quote, a backslash or an n.
#define part(offset, stops, slashes, plains) \
	VMOVDQU offset(SI), Y0   \
	VPOR Y0, Y7, Y7          \
	VPCMPEQB Y8, Y0, Y1      \
	VPCMPEQB Y9, Y0, Y2      \
	VPMINUB Y10, Y0, Y3      \ // no change for a control character
	VPCMPEQB Y0, Y3, Y3      \
	VPCMPEQB Y11, Y0, Y0     \
	VPOR Y1, Y3, Y3          \
	VPOR Y1, Y2, Y1          \
	VPOR Y0, Y1, Y0          \
	VPMOVMSKB Y3, stops      \
	VPMOVMSKB Y2, slashes    \
	VPMOVMSKB Y0, plains

// func classify(src *byte, blocks []block) (high uint64)
TEXT ·classify(SB), NOSPLIT, $0-40
	MOVQ src+0(FP), SI
	MOVQ blocks_base+8(FP), DI
	MOVQ blocks_len+16(FP), CX
	broadcast('"', X8, Y8)
	broadcast('\\', X9, Y9)
	broadcast(0x1f, X10, Y10)
	broadcast('n', X11, Y11)
	VPXOR Y7, Y7, Y7                // all bytes, ored
	MOVQ $0xaaaaaaaaaaaaaaaa, R12   // the odd places
	XORL R13, R13                   // 1 when the block before ended in an escape
loop:
	part(0, R8, R9, R10)
	part(32, AX, BX, DX)
	SHLQ $32, AX
	SHLQ $32, BX
	SHLQ $32, DX
	ORQ AX, R8
	ORQ BX, R9
	ORQ DX, R10
	// A backslash begins an escape unless it is escaped: in a run of them every
	// other one does. Subtracting lets a borrow run through each, as simdjson
	// 3.0 does (find_escaped of its json_escape_scanner).
	MOVQ R13, AX
	NOTQ AX
	ANDQ R9, AX
	LEAQ (AX)(AX*1), BX
	ORQ R12, BX
	SUBQ AX, BX
	XORQ R12, BX
	ORQ R9, R13
	XORQ BX, R13                    // what is escaped
	ANDQ R9, BX                     // the backslashes that escape
	NOTQ R13
	ANDQ R13, R8
	SHRQ $1, R10
	NOTQ R10
	ANDQ BX, R10
	ORQ R10, R8
	MOVQ R8, (DI)
	MOVQ BX, 8(DI)
	MOVQ BX, R13
	SHRQ $63, R13
	ADDQ $64, SI
	ADDQ $16, DI
	DECQ CX
	JNZ loop
	VPMOVMSKB Y7, AX
	VZEROUPPER
	MOVQ AX, high+32(FP)
	RET

// func hasAVX2() bool
TEXT ·hasAVX2(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	XORL AX, AX
	CPUID
	CMPL AX, $7
	JLT done
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $0x18000000, CX            // AVX, and XGETBV to ask the system about it
	CMPL CX, $0x18000000
	JNE done
	XORL CX, CX
	XGETBV
	ANDL $6, AX                     // it keeps the registers
	CMPL AX, $6
	JNE done
	MOVL $7, AX
	XORL CX, CX
	CPUID
	SHRL $5, BX
	ANDL $1, BX
	MOVB BX, ret+0(FP)
done:
	RET
