// Scratch memory of a call, from one piece that the calling thread keeps, so that calls in a loop allocate nothing.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

class Scratch {
public:
    ~Scratch() { release(); }

    // Starts a call. If the last call did not fit into one piece, allocates a piece that is large enough.
    void begin() {
        if (blocks > 1 || total > kept) {
            int64_t wanted = total;
            release();
            if (wanted <= kept) grow(wanted);
        }
        used = 0;
        failed = false;
    }

    // count elements, aligned to a cache line; null if there is not enough memory
    template <class T> T* take(int64_t count) {
        if (count < 0 || count > most / (int64_t)sizeof(T)) {
            failed = true;
            return nullptr;
        }
        int64_t bytes = (count * (int64_t)sizeof(T) + 63) / 64 * 64;
        if (used + bytes > size && !grow(bytes > 1 << 20 ? bytes : 1 << 20)) {
            failed = true;
            return nullptr;
        }
        char* at = base + used;
        used += bytes;
        return reinterpret_cast<T*>(at);
    }

    bool failed = false;

private:
    static constexpr int64_t kept = 64 << 20; // more than this goes back to the system at the next call
    static constexpr int64_t most = int64_t(1) << 56; // bytes of a piece, so that sums of sizes do not overflow

    struct Block {
        Block* before;
        int64_t bytes;
    };

    bool grow(int64_t bytes) {
        char* memory = static_cast<char*>(std::aligned_alloc(64, 64 + (bytes + 63) / 64 * 64));
        if (!memory) return false;
        last = new (memory) Block{last, bytes};
        base = memory + 64;
        size = bytes;
        used = 0;
        total += bytes;
        blocks++;
        return true;
    }

    void release() {
        while (last) {
            Block* before = last->before;
            std::free(last);
            last = before;
        }
        base = nullptr;
        size = used = total = 0;
        blocks = 0;
    }

    Block* last = nullptr;
    char* base = nullptr;
    int64_t size = 0, used = 0, total = 0;
    int blocks = 0;
};

} // namespace
