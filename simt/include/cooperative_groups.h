#pragma once
// A simulated GPU is older than clusters (sm_80): nothing of this header is used.
