#include "textflag.h"

// func crash()
TEXT ·crash(SB),NOSPLIT|NOFRAME,$0-0
	MOVD	ZR, R0
	MOVD	R0, (R0)
	RET

// func foreign()
TEXT ·foreign(SB),NOSPLIT|NOFRAME,$0-0
	RET
