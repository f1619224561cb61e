//! Marked functions that lints report.

#![allow(dead_code, reason = "nothing is called")]

use perfmark::perfmark;

#[perfmark]
pub fn endless(n: u32) -> u32 {
    endless(n + 1)
}

#[perfmark]
pub fn endless_with_items(n: u32) -> u32 {
    const ONE: u32 = 1;
    endless_with_items(n + ONE)
}

#[perfmark]
pub fn items_after_statements(n: u32) -> u32 {
    use Late::One;
    fn two() -> u32 {
        TWO
    }
    let sum = n + One as u32 + two();
    enum Late {
        One,
        Other,
    }
    const TWO: u32 = 2;
    sum
}

#[perfmark]
pub fn items_after_statements_in_an_iterator(n: u32) -> impl Iterator<Item = u32> {
    fn one() -> u32 {
        ONE
    }
    let first = n + one();
    const ONE: u32 = 1;
    first..10
}

/// Its braces are on one line, so the lint `unused_braces` reports braces in them.
#[perfmark]
pub fn on_one_line(n: u32) -> impl Iterator<Item = u32> { 0..n }

#[perfmark]
pub fn endless_iterator(n: u32) -> impl Iterator<Item = u32> {
    Box::new(endless_iterator(n)) as Box<dyn Iterator<Item = u32>>
}

pub struct Tree(Vec<Tree>);

impl PartialEq for Tree {
    #[perfmark]
    fn eq(&self, other: &Self) -> bool {
        self == other
    }
}

#[perfmark]
impl Tree {
    pub fn endless(&self) -> usize {
        self.endless()
    }

    pub fn len(&self) -> usize {
        return self.0.len();
    }

    pub fn new(size: usize) -> Vec<Self> {
        let mut trees = Vec::new();
        for n in 0..size {
            trees.push(Tree(vec![]));
        }
        trees
    }

    pub fn to_string(&self) -> String {
        format!("{}", self.0.len())
    }

    pub async fn count(&self) -> usize {
        self.0.len()
    }

    pub async fn into_first(&self) -> Result<usize, String> {
        let size = self.0.len();
        if size == 0 {
            return Err("empty".to_string());
        }
        std::future::ready(()).await;
        Ok(self.0.first().unwrap().0.len())
    }
}

#[perfmark]
pub fn same_parts(n: u32, text: String) -> Result<u32, std::fmt::Error> {
    let n = n;
    let n = n + 1;
    if n == 3 {
        return Err(std::fmt::Error);
    } else {
        let text = text.clone();
        drop(&text);
    }
    let m = match n {
        1 => 2,
        _ => 2,
    };
    let unused = 1;
    return Ok(n as u32 + m as u8 as u32);
}

#[perfmark]
pub fn panics(list: &Vec<u32>) -> u32 {
    if list.is_empty() {
        panic!("empty");
    }
    let mut sum = 0;
    for n in 0..list.len() {
        sum += list[n];
    }
    sum
}

#[perfmark]
pub fn unit(x: Option<u32>) -> () {
    if let Some(n) = x {
        println!("{}", n);
    }
    ()
}

#[perfmark]
pub fn result_of_a_let(n: u32) -> u32 {
    let result = n.count_ones();
    result
}

#[perfmark]
pub fn many(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: bool) -> u8 {
    let flag = if h == true { true } else { false };
    a + b + c + d + e + f + g + flag as u8
}

#[perfmark]
pub fn boxed(text: Box<String>) -> Option<Option<usize>> {
    Some(Some(text.len()))
}

#[perfmark]
pub fn adds(n: u32) -> u32 {
    n + 1
}

#[perfmark]
pub unsafe fn raw(pointer: *const u32) -> u32 {
    unsafe { *pointer }
}

#[perfmark]
pub fn dereferences(pointer: *const u32) -> u32 {
    unsafe { *pointer }
}

#[perfmark]
fn never_called(mut unused: u32, list: &mut Vec<u32>) -> bool {
    list.len() == 0
}

#[perfmark]
pub fn leaves() -> ! {
    loop {
        let n = 1;
    }
}

#[perfmark]
pub fn after_the_end(n: u32) -> u32 {
    return n;
    println!("{n}");
}

#[perfmark]
#[inline(always)]
pub fn inlined(n: u32) -> u32 {
    n * 1
}

#[perfmark]
#[must_use]
pub fn double_must_use() -> Result<(), ()> {
    Ok(())
}

#[perfmark]
pub fn closure(list: &[u32]) -> Vec<u32> {
    list.iter().map(|n| n.clone()).filter(|n| *n > 0).map(|n| n).collect()
}

#[perfmark]
pub fn lifetimes<'a>(text: &'a str) -> &'a str {
    &text
}

#[perfmark]
pub fn future_at_the_end(n: u32) -> impl Future<Output = u32> {
    async move { n.clone() }
}

#[perfmark]
pub async fn does_not_wait(n: u32) -> u32 {
    n + 1
}

#[perfmark]
pub async fn shadows(text: String, (one, two): (u32, u32), unused: u32, _named: u32) -> u32 {
    let text = text;
    std::future::ready(()).await;
    let one = one;
    one + two + text.len() as u32
}

#[perfmark]
pub async fn fails(n: u32) -> Result<u32, std::fmt::Error> {
    if n == 0 {
        return Err(std::fmt::Error);
    }
    std::future::ready(()).await;
    Ok(n.checked_sub(1).unwrap())
}

#[perfmark]
pub async fn panics_later(n: Option<u32>) -> u32 {
    std::future::ready(()).await;
    n.expect("a number")
}

#[perfmark]
pub async fn unit_later(mut list: Vec<u32>) -> () {
    std::future::ready(()).await;
    return;
}

#[perfmark]
pub async fn holds_a_lock(lock: &std::sync::Mutex<u32>) -> u32 {
    let held = lock.lock().unwrap();
    std::future::ready(()).await;
    *held
}

#[perfmark]
pub async fn not_send(shared: std::rc::Rc<u32>) -> u32 {
    std::future::ready(()).await;
    *shared
}

#[perfmark]
pub async fn gives_a_future() -> impl Future<Output = u32> {
    std::future::ready(()).await;
    async { 1 }
}

#[perfmark]
#[must_use]
pub async fn must_use_later() -> u32 {
    std::future::ready(1).await
}

#[perfmark]
pub async fn endless_later(n: u32) -> u32 {
    Box::pin(endless_later(n)).await
}

pub trait Load {
    #[perfmark]
    fn load(&self) -> usize {
        self.load()
    }

    #[perfmark]
    async fn later(&self) -> usize {
        self.load()
    }
}

impl Clone for Tree {
    #[perfmark]
    fn clone(&self) -> Self {
        Tree(self.0.clone())
    }
}

impl Default for Tree {
    #[perfmark]
    fn default() -> Self {
        Self::default()
    }
}

#[perfmark]
pub fn lifetime_of_the_result<'a>(list: &'a [u32]) -> Option<&'a u32> {
    let first = list.first()?;
    Some(first)
}

#[perfmark]
pub fn lifetime_of_an_argument<'a>(text: &'a str) -> usize {
    text.len()
}

#[perfmark]
pub async fn lifetimes_later<'a>(text: &'a str) -> &'a str {
    std::future::ready(text).await
}

impl Tree {
    #[perfmark]
    pub fn same_type(&self) -> Self {
        let tree = Tree(self.0.clone());
        tree
    }

    #[perfmark]
    pub async fn type_later(&self) -> Self {
        std::future::ready(()).await;
        Tree(self.0.clone())
    }
}
