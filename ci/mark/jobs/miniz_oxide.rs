//! Compresses and decompresses each file at three levels, and all files together as a stream.

use std::{env, fs};

use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::inflate::{decompress_to_vec, decompress_to_vec_zlib};
use miniz_oxide::{DataFormat, MZFlush};

/// Decompresses in pieces.
fn streamed(compressed: &[u8], piece: usize) -> Vec<u8> {
    let mut state = InflateState::new_boxed(DataFormat::Raw);
    let (mut rest, mut all, mut output) = (compressed, Vec::new(), vec![0; 4096]);
    loop {
        let result = inflate(&mut state, &rest[..piece.min(rest.len())], &mut output, MZFlush::None);
        result.status.expect("the stream is valid");
        rest = &rest[result.bytes_consumed..];
        all.extend_from_slice(&output[..result.bytes_written]);
        if rest.is_empty() && result.bytes_written == 0 {
            return all;
        }
    }
}

#[perfmark::perfmark(time, name = "the job")]
fn main() {
    let files: Vec<Vec<u8>> = env::args().skip(1).map(|file| fs::read(file).expect("readable")).collect();
    let (mut compressed, mut digest) = (0, 0_u64);
    for (file, level) in files.iter().flat_map(|file| [1, 6, 9].map(|level| (file, level))) {
        let zlib = compress_to_vec_zlib(file, level);
        assert!(decompress_to_vec_zlib(&zlib).is_ok_and(|again| again == *file));
        compressed += zlib.len();
        digest = zlib.iter().fold(digest, |digest, &byte| digest.rotate_left(5) ^ u64::from(byte));
    }
    let all = files.concat();
    let raw = compress_to_vec(&all, 6);
    assert!(decompress_to_vec(&raw).is_ok_and(|again| again == all) && streamed(&raw, 1000) == all);
    let (all, raw) = (all.len(), raw.len());
    println!("{all} bytes; compressed: {compressed} at three levels, {raw} together; digest {digest:x}");
    println!("calls {} miniz_oxide::deflate::compress_to_vec_zlib", 3 * files.len());
    println!("calls {} miniz_oxide::inflate::decompress_to_vec_zlib", 3 * files.len());
    println!("calls 1 miniz_oxide::inflate::decompress_to_vec");
}
